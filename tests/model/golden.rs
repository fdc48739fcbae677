//! Golden files: the forms that are read, the one that is written, and files that must be refused.

use proptest::prelude::*;
use serde_json::json;
use vt_model::golden::{Capture, Golden, Row};

fn row() -> Row {
    Row {
        prompt: Some("a\n\"b\"".into()),
        prompt_ids: vec![1, 2],
        ids: vec![3, 4],
        text: Some("c".into()),
        second: vec![5, 6],
        logprob: vec![-0.25, -1.5e-7],
        margin_nats: vec![1.5, 0.015_66],
    }
}

fn refusal(value: serde_json::Value) -> String {
    Golden::parse(value.to_string().as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_list_of_rows() {
    let value = json!([{"prompt": "x", "prompt_ids": [1, 90], "ids": [7], "second": [8], "logprob": [-0.5],
        "margin_nats": [0.25], "recompute_equal": 1}]);
    let golden = Golden::parse(value.to_string().as_bytes()).unwrap();
    assert_eq!(golden.capture, None);
    let row = &golden.rows[0];
    assert_eq!((&row.prompt_ids[..], &row.ids[..], &row.second[..]), (&[1, 90][..], &[7][..], &[8][..]));
    assert_eq!((&row.logprob[..], &row.margin_nats[..]), (&[-0.5f32][..], &[0.25f32][..]));
}

#[test]
fn an_object_with_steps() {
    let step = json!({"ids": [9, 10], "logits": [2.0, 1.0], "margin": 1.0});
    let value = json!({"dtype": "f32", "prompts": [{"prompt": [1, 2], "tokens": [9], "steps": [step]}]});
    let row = Golden::parse(value.to_string().as_bytes()).unwrap().rows.remove(0);
    assert_eq!((row.prompt, row.prompt_ids, row.ids), (None, vec![1, 2], vec![9]));
    assert_eq!((row.second, row.margin_nats, row.logprob), (vec![10], vec![1.0], vec![]));
}

#[test]
fn every_oracle_golden_is_read() {
    let Some(dir) = crate::support::oracle::oracle_dir("golden") else { return };
    let mut read = 0;
    for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.file_name().unwrap().to_str().unwrap().starts_with("golden_") {
            for row in Golden::load(&path).unwrap().rows {
                assert_eq!(row.ids.len(), row.margin_nats.len(), "{}", path.display());
                assert!(row.ids.len() >= 24);
            }
            read += 1;
        }
    }
    assert!(read >= 11);
}

#[test]
fn ours_survives_the_round_trip() {
    let engine = json!({"block_size": 16, "kv_blocks": 64}).as_object().unwrap().clone();
    let capture = Capture {
        model: "m".into(),
        revision: Some("abc".into()),
        vt: "0.1.0".into(),
        arch: "sm_121a".into(),
        activations: "bf16".into(),
        engine,
        sampling: json!({"temperature": 0.0, "ignore_eos": true}).as_object().unwrap().clone(),
    };
    let golden =
        Golden { capture: Some(capture), rows: vec![row(), Row { prompt: None, text: None, ..row() }] };
    let text = golden.to_json();
    assert_eq!(Golden::parse(text.as_bytes()).unwrap(), golden);
    assert_eq!(text.lines().filter(|line| line.contains("prompt_ids")).count(), 2, "a line to a prompt");
}

mod errors {
    use super::*;

    #[test]
    fn files_that_hold_no_prompts() {
        for (value, reason) in [
            (json!([]), "no prompts"),
            (json!({"prompts": []}), "no prompts"),
            (json!({}), "`prompts` is not there"),
            (json!({"prompts": 1}), "`prompts` is not there"),
            (json!("x"), "neither a list nor an object"),
            (json!([1]), "prompt 0: not an object"),
            (json!([{"ids": [1]}]), "`prompt_ids` is not there"),
            (json!([{"prompt": "text", "ids": [1]}]), "`prompt_ids` is not there"),
            (json!([{"prompt_ids": [], "ids": [1]}]), "`prompt_ids` is empty"),
            (json!([{"prompt_ids": [1]}]), "`ids` is not there"),
        ] {
            let message = refusal(value.clone());
            assert!(message.contains(reason), "{value}: {message}");
        }
        assert!(Golden::parse(b"").is_err());
        assert!(Golden::parse(b"[{").is_err());
    }

    #[test]
    fn ids_that_are_none() {
        for id in [json!(-1), json!(1.5), json!(4_294_967_296u64), json!("1"), json!(null), json!(1e30)] {
            let message = refusal(json!([{"prompt_ids": [1, id], "ids": [1]}]));
            assert!(message.contains("expected a token id"), "{message}");
        }
    }

    #[test]
    fn lists_of_different_lengths() {
        for name in ["second", "logprob", "margin_nats"] {
            let message = refusal(json!([{"prompt_ids": [1], "ids": [1, 2], name: [1]}]));
            assert!(message.contains("1 entries for 2 ids"), "{message}");
        }
        let step = json!({"ids": [1, 2], "margin": 1.0});
        let message = refusal(json!([{"prompt_ids": [1], "ids": [1, 2], "steps": [step]}]));
        assert!(message.contains("1 entries for 2 ids"), "{message}");
        let step = json!({"ids": [1], "margin": 1.0});
        assert!(refusal(json!([{"prompt_ids": [1], "ids": [1], "steps": [step]}])).contains("expected 2"));
    }

    #[test]
    fn numbers_that_are_none() {
        for margin in ["NaN", "null", "1e999", "1e60", "\"1\"", "-0.5"] {
            let text = format!(r#"[{{"prompt_ids": [1], "ids": [1], "margin_nats": [{margin}]}}]"#);
            assert!(Golden::parse(text.as_bytes()).is_err(), "{margin}");
        }
    }

    #[test]
    fn a_format_of_the_future() {
        let message = refusal(json!({"format": "vt-golden", "version": 2, "prompts": []}));
        assert!(message.contains("version 2, expected \"vt-golden\" version 1"), "{message}");
        assert!(refusal(json!({"format": "x", "version": 1, "prompts": []})).contains("format \"x\""));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Golden::load(std::path::Path::new("/nowhere/golden.json")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/golden.json"), "{error}");
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(Golden::parse("[".repeat(100_000).as_bytes()).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn changed_bytes_never_panic(at in 0usize..400, byte: u8) {
        let golden = Golden { capture: Some(Capture::default()), rows: vec![row()] };
        let mut bytes = golden.to_json().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = Golden::parse(&bytes);
    }
}
