//! The tokenizer of the embedded checkpoint, and files that are none.

use proptest::prelude::*;
use vt_model::tokenizer::Tokenizer;

use crate::support::oracle::root;

fn embedded() -> Tokenizer {
    Tokenizer::load(&root().join("tests/data/lightning")).unwrap()
}

/// All pieces of a stream.
fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let mut stream = tokenizer.stream();
    let mut pieces: Vec<_> = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
    pieces.push(stream.finish().unwrap());
    pieces
}

mod vs_transformers {
    use super::*;
    use crate::support::oracle::oracle_dir;

    #[test]
    fn count_has_the_ids_of_the_golden() {
        let ids = embedded().encode_prompt("count from 17: 17 18", Some(1)).unwrap();
        assert_eq!(ids, [1, 377, 376, 488, 28, 488, 458]);
    }

    #[test]
    fn every_golden_prompt_and_answer() {
        let Some(dir) = oracle_dir("tokenizer") else { return };
        let golden = vt_model::golden::Golden::load(&dir.join("golden_bf16_f32_cpu.json")).unwrap();
        let tokenizer = embedded();
        for row in golden.rows {
            let prompt = row.prompt.unwrap();
            assert_eq!(tokenizer.encode_prompt(&prompt, Some(1)).unwrap(), row.prompt_ids, "{prompt}");
            assert_eq!(tokenizer.decode(&row.ids).unwrap(), row.text.unwrap(), "{prompt}");
        }
    }
}

#[test]
fn special_tokens_in_text_are_ids_and_not_printed() {
    let tokenizer = embedded();
    let ids = tokenizer.encode("<s>x</s>", false).unwrap();
    assert_eq!((ids.first(), ids.last()), (Some(&1), Some(&2)));
    assert_eq!(tokenizer.decode(&ids).unwrap(), "x");
    assert_eq!(tokenizer.encode_prompt("<s>x", Some(1)).unwrap(), [1, 90], "bos is there once");
    assert_eq!((tokenizer.token(1).as_deref(), tokenizer.id("</s>")), (Some("<s>"), Some(2)));
    assert_eq!(tokenizer.vocab_size(), 512);
}

#[test]
fn add_bos_token_false_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(root().join("tests/data/lightning/tokenizer.json"), dir.path().join("tokenizer.json"))
        .unwrap();
    let prompt = || Tokenizer::load(dir.path()).unwrap().encode_prompt("x", Some(1)).unwrap();
    assert_eq!(prompt(), [1, 90]);
    std::fs::write(dir.path().join("tokenizer_config.json"), r#"{"add_bos_token": false}"#).unwrap();
    assert_eq!(prompt(), [90]);
}

#[test]
fn an_empty_prompt_is_bos() {
    assert_eq!(embedded().encode_prompt("", Some(1)).unwrap(), [1]);
    assert!(embedded().encode_prompt("", None).unwrap().is_empty());
    assert_eq!(streamed(&embedded(), &[]).concat(), "");
}

#[test]
fn a_stream_waits_for_whole_characters() {
    let tokenizer = embedded();
    let text = "é 🦀 日本";
    let ids = tokenizer.encode(text, false).unwrap();
    let pieces = streamed(&tokenizer, &ids);
    assert!(ids.len() > text.chars().count(), "the vocabulary has no such characters, only bytes");
    assert!(pieces.iter().all(|piece| !piece.contains('\u{fffd}')), "{pieces:?}");
    assert_eq!(pieces.concat(), text);
}

#[test]
fn ids_out_of_the_vocabulary_give_no_text() {
    assert_eq!(streamed(&embedded(), &[90, 100_000, u32::MAX, 90]).concat(), "xx");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn text_survives_the_round_trip(text in "\\PC{0,80}") {
        let tokenizer = embedded();
        let ids = tokenizer.encode(&text, false).unwrap();
        prop_assert_eq!(tokenizer.decode(&ids).unwrap(), text.clone());
        prop_assert_eq!(streamed(&tokenizer, &ids).concat(), text);
    }

    #[test]
    fn a_stream_of_any_ids_is_their_text(ids in prop::collection::vec(0u32..520, 0..120)) {
        let tokenizer = embedded();
        prop_assert_eq!(streamed(&tokenizer, &ids).concat(), tokenizer.decode(&ids).unwrap());
    }

    #[test]
    fn garbage_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Tokenizer::from_bytes("garbage", &bytes).is_err());
    }

    #[test]
    fn a_truncated_file_is_an_error(cut in 0usize..21_000) {
        let bytes = std::fs::read(root().join("tests/data/lightning/tokenizer.json")).unwrap();
        let error = Tokenizer::from_bytes("tokenizer.json", &bytes[..cut.min(bytes.len() - 1)]).unwrap_err();
        prop_assert!(error.to_string().starts_with("tokenizer.json: "), "{error}");
    }
}

mod errors {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Tokenizer::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn merges_of_unknown_tokens() {
        let file = br#"{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","b"]]}}"#;
        assert!(Tokenizer::from_bytes("t", file).is_err());
    }

    #[test]
    fn padding_and_truncation_of_the_file_are_left_out() {
        let text = std::fs::read_to_string(root().join("tests/data/lightning/tokenizer.json")).unwrap();
        let truncation = r#"{"direction":"Right","max_length":2,"strategy":"LongestFirst","stride":0}"#;
        let padding = r#"{"strategy":{"Fixed":100000000000},"direction":"Right","pad_to_multiple_of":null,
            "pad_id":0,"pad_type_id":0,"pad_token":"<pad>"}"#;
        let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
        file["truncation"] = serde_json::from_str(truncation).unwrap();
        file["padding"] = serde_json::from_str(padding).unwrap();
        let tokenizer = Tokenizer::from_bytes("t", file.to_string().as_bytes()).unwrap();
        assert_eq!(tokenizer.encode("x x x x", true).unwrap(), embedded().encode("x x x x", true).unwrap());
    }
}
