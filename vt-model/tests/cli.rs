//! The `vt` program as a process: output, exit codes, messages.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name)
}

fn vt(args: &[&str]) -> Output {
    let model = data("lightning");
    let args = args.iter().map(|arg| if *arg == "MODEL" { model.as_os_str() } else { arg.as_ref() });
    Command::new(env!("CARGO_BIN_EXE_vt")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a run that ends with `code`.
#[track_caller]
fn ends(code: i32, args: &[&str]) -> String {
    let output = vt(args);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?}\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// One line on standard error that begins with `error:` and has `expected` in it; nothing on standard output; exit 2.
#[track_caller]
fn refuses(args: &[&str], expected: &str) {
    let output = vt(args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(message.starts_with("error:") && message.contains(expected), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?}: {}", text(&output.stdout));
    assert!(!message.contains("panicked"), "{message}");
}

#[test]
fn generate_counts() {
    let prompt = "count from 17: 17 18";
    let out = ends(0, &["generate", "--model", "MODEL", "--prompt", prompt, "--max-tokens", "24"]);
    assert!(out.starts_with(" 19 20 21 22 23 24 25\n"), "{out}");
}

#[test]
fn generate_several_prompts_as_json() {
    let args = [
        "generate",
        "--model",
        "MODEL",
        "--prompt",
        "days: friday saturday",
        "--tokens",
        "1,377,376,488,28,488,458",
    ];
    let out = ends(0, &[&args[..], &["--max-tokens", "3", "--json", "--quiet", "--logprobs", "2"]].concat());
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    let counted = rows
        .iter()
        .find(|row| row["prompt_ids"] == serde_json::json!([1, 377, 376, 488, 28, 488, 458]))
        .unwrap();
    assert_eq!(counted["ids"], serde_json::json!([497, 463, 466]));
    assert_eq!(counted["finish"], "length");
}

#[test]
fn generate_is_reproducible() {
    let sample = |seed: &str| {
        let args = [
            "generate",
            "--model",
            "MODEL",
            "--prompt",
            "copy:",
            "--max-tokens",
            "20",
            "--temperature",
            "1.5",
        ];
        ends(0, &[&args[..], &["--seed", seed]].concat())
    };
    assert_eq!(sample("1"), sample("1"));
    assert_ne!(sample("1"), sample("2"));
    ends(0, &["generate", "--model", "MODEL", "--prompt", "x", "--max-tokens", "0"]);
}

#[test]
fn gate_reads_goldens_and_says_so_by_its_exit_code() {
    let golden = data("golden_lightning_act_f32_cpu.json");
    let golden = golden.to_str().unwrap();
    let gate = ["gate", "--model", "MODEL", "--golden", golden, "--max-tokens", "4", "--prompts", "4"];
    let out = ends(0, &gate);
    assert!(out.contains("STRICT PASS"), "{out}");
    let json = ends(0, &[&gate[..], &["--json"]].concat());
    json.lines().for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).unwrap()));
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let row = |ids: &str, margins: &str| {
        format!(
            r#"[{{"prompt_ids": [1, 377, 376, 488, 28, 488, 458], "ids": {ids}, "margin_nats": {margins}}}]"#
        )
    };
    let run = |file: &str, more: &[&str]| {
        let args = ["gate", "--model", "MODEL", "--golden", file];
        vt(&[&args[..], more].concat()).status.code()
    };
    assert_eq!(run(&write("right", &row("[497, 463]", "[9, 1]")), &["--strict"]), Some(0));
    assert_eq!(run(&write("tie", &row("[497, 9]", "[9, 0.1]")), &[]), Some(0));
    assert_eq!(run(&write("tie", &row("[497, 9]", "[9, 0.1]")), &["--strict"]), Some(1));
    assert_eq!(run(&write("wrong", &row("[497, 9]", "[9, 1]")), &[]), Some(1));
    assert_eq!(run(&write("empty row", &row("[]", "[]")), &[]), Some(3));
    for (name, text) in [
        ("no rows", "[]"),
        ("no json", "{"),
        ("lengths", &row("[497, 463]", "[9]")),
        ("huge id", &row("[4294967295]", "[9]")),
        ("no list", r#"{"prompts": 3}"#),
    ] {
        assert_eq!(run(&write(name, text), &[]), Some(2), "{name}");
    }
}

#[test]
fn golden_writes_what_gate_passes() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("golden.json");
    let out = out.to_str().unwrap();
    let prompts = ["--prompt", "count from 3: 3 4", "--prompt", "reverse: stone cloud ->"];
    ends(0, &[&["golden", "--model", "MODEL", "--output", out, "--max-tokens", "6"], &prompts[..]].concat());
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(out).unwrap()).unwrap();
    assert!(json["engine"]["kv_blocks"].is_u64() && json["sampling"].is_object(), "{json}");
    ends(0, &["gate", "--model", "MODEL", "--golden", out, "--strict"]);
}

#[test]
fn compare_tells_equal_from_different() {
    let compare = |right: &str| {
        let left = ["--left", "arch=sm_121a,batch=8", "--right", right, "--max-tokens", "3"];
        vt(&[&["compare", "--model", "MODEL", "--prompt", "add: 23 + 45 ="], &left[..]].concat())
    };
    assert_eq!(compare("arch=sm_121a,batch=1,chunk=128").status.code(), Some(0));
    let output = compare("arch=sm_90a");
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("in_proj") && out.contains("0x"), "{out}");
    refuses(
        &["compare", "--model", "MODEL", "--prompt", "x", "--left", "arch=sm_1", "--right", "batch=1"],
        "sm_1",
    );
}

#[test]
fn inspect_and_doctor() {
    let out = ends(0, &["inspect", "MODEL", "--bandwidth", "100"]);
    assert!(out.contains("W4A16_NVFP4") && out.contains("tokens/s"), "{out}");
    let json: serde_json::Value = serde_json::from_str(&ends(0, &["inspect", "MODEL", "--json"])).unwrap();
    assert_eq!(json["blocks"].as_array().unwrap().len(), 13);
    let out = ends(0, &["doctor"]);
    assert!(out.contains("gemm/nvfp4") && out.contains("DISABLED (the chip has no FP4 MMA)"), "{out}");
    drop(serde_json::from_str::<serde_json::Value>(&ends(0, &["doctor", "--json"])).unwrap());
}

mod errors {
    use super::*;

    #[test]
    fn bad_input_is_named() {
        let generate = |more: &[&'static str]| [&["generate", "--model", "MODEL"], more].concat();
        refuses(&["generate", "--model", "/nowhere", "--prompt", "x"], "/nowhere");
        refuses(&generate(&["--tokens", "1,512"]), "512");
        refuses(&generate(&["--prompt-file", "/nowhere/prompt"]), "/nowhere/prompt");
        refuses(&generate(&["--prompt", "x", "--top-p", "0"]), "top_p");
        refuses(&generate(&["--prompt", "x", "--temperature=-1"]), "temperature");
        refuses(&generate(&["--prompt", "x", "--chunk", "64"]), "--chunk");
        refuses(&generate(&["--prompt", "x", "--kv-blocks", "1", "--max-tokens", "99"]), "kv_blocks");
        refuses(&["inspect", "/nowhere"], "/nowhere");
        refuses(&["inspect", "MODEL", "--bandwidth", "0"], "--bandwidth");
        refuses(&["gate", "--model", "MODEL", "--golden", "/nowhere.json"], "/nowhere.json");
        for args in [&["generate"][..], &["nothing"], &["gate", "--model", "MODEL"], &[]] {
            assert_eq!(vt(args).status.code(), Some(2), "{args:?}");
        }
    }
}
