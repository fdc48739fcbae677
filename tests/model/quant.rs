//! Rules of precision: each form that ModelOpt has written, and what is refused.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use vt_model::quant::{Algo, QuantConfig};

use crate::support::oracle::oracle_dir;

fn parse(json: Value) -> Result<QuantConfig, String> {
    QuantConfig::from_json(&json.to_string(), Path::new("q.json")).map_err(|e| e.to_string())
}

fn resolve(json: Value, module: &str) -> Algo {
    parse(json).unwrap().resolve(module).unwrap()
}

#[test]
fn uniform_with_exclusions() {
    let rules = json!({ "quantization": {
        "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
        "exclude_modules": [
            "lm_head", "backbone.layers.5.mixer.q_proj", "*.conv1d", "backbone.layers.1*.mixer.in_proj",
            "backbone.layers.3.mixer", "model.layers.7.mixer.?_proj", "mtp*",
        ],
    } });
    let config = parse(rules).unwrap();
    assert!(config.kv_cache_fp8);
    for module in [
        "lm_head",
        "backbone.layers.5.mixer.q_proj",
        "model.layers.5.mixer.q_proj",
        "backbone.layers.0.mixer.conv1d",
        "backbone.layers.14.mixer.in_proj",
        "backbone.layers.3.mixer.experts.7.up_proj",
        "backbone.layers.7.mixer.v_proj",
        "mtp.layers.0.eh_proj",
    ] {
        assert_eq!(config.resolve(module).unwrap(), Algo::None, "{module}");
    }
    for module in [
        "backbone.layers.5.mixer.k_proj",
        "backbone.layers.24.mixer.in_proj",
        "backbone.layers.33.mixer.q_proj",
        "backbone.layers.7.mixer.in_proj",
        "lm_head_2",
    ] {
        assert_eq!(config.resolve(module).unwrap(), Algo::Nvfp4, "{module}");
    }
}

#[test]
fn the_suffix_of_modelopt_0_47() {
    let name = |module: &str| format!("{module}.\0backbone.pt_name_sentinel");
    let mut layers = serde_json::Map::new();
    layers.insert(name("backbone.layers.0.mixer.in_proj"), json!({ "quant_algo": "FP8" }));
    layers.insert(name("backbone.layers.1.mixer.experts"), json!({ "quant_algo": "W4A16_NVFP4" }));
    let rules = json!({
        "quant_algo": "MIXED_PRECISION", "quantized_layers": layers,
        "ignore": [name("backbone.layers.1.mixer.experts.3")],
        "kv_cache_scheme": { "dynamic": false, "num_bits": 8, "type": "float" },
    });
    let config = parse(rules).unwrap();
    assert!(config.kv_cache_fp8);
    let algo = |module: &str| config.resolve(module).unwrap();
    assert_eq!(algo("backbone.layers.0.mixer.in_proj"), Algo::Fp8);
    assert_eq!(algo("model.layers.0.mixer.in_proj"), Algo::Fp8);
    assert_eq!(algo("backbone.layers.0.mixer.out_proj"), Algo::None);
    assert_eq!(algo("backbone.layers.1.mixer.experts.2.up_proj"), Algo::W4a16Nvfp4);
    assert_eq!(algo("backbone.layers.1.mixer.experts.3.up_proj"), Algo::None);
    assert_eq!(algo("backbone.layers.1.mixer.shared_experts.up_proj"), Algo::None);
    assert_eq!(algo("backbone.layers.11.mixer.experts.2.up_proj"), Algo::None);
}

#[test]
fn own_name_before_group() {
    let rules = json!({ "quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "backbone.layers.1.mixer.experts.0.up_proj": { "quant_algo": "FP8" },
        "backbone.layers.1.mixer.experts": { "quant_algo": "NVFP4", "group_size": 16 },
        "lm_head": { "quant_algo": "NVFP4" },
    } });
    assert_eq!(resolve(rules.clone(), "backbone.layers.1.mixer.experts.0.up_proj"), Algo::Fp8);
    assert_eq!(resolve(rules.clone(), "backbone.layers.1.mixer.experts.1.up_proj"), Algo::Nvfp4);
    assert_eq!(resolve(rules, "lm_head"), Algo::Nvfp4);
}

#[test]
fn a_group_from_its_members() {
    let rules = |second: &str| {
        json!({ "quant_algo": "MIXED_PRECISION", "quantized_layers": {
            "backbone.layers.1.mixer.experts.0.up_proj": { "quant_algo": "NVFP4" },
            "backbone.layers.1.mixer.experts.1.up_proj": { "quant_algo": second },
        } })
    };
    assert_eq!(resolve(rules("NVFP4"), "backbone.layers.1.mixer.experts"), Algo::Nvfp4);
    let error = parse(rules("FP8")).unwrap().resolve("backbone.layers.1.mixer.experts").unwrap_err();
    assert!(error.to_string().contains("siblings"), "{error}");
}

#[test]
fn groups_alone() {
    let group = |bits: u32, activations: Value, targets: Value| {
        json!({ "weights": { "num_bits": bits, "type": "float", "dynamic": false },
                "input_activations": activations, "targets": targets })
    };
    let all = json!({ "config_groups": { "group_0": group(8, json!({}), json!(["Linear"])) },
                      "ignore": ["lm_head"] });
    assert_eq!(resolve(all.clone(), "backbone.layers.0.mixer.in_proj"), Algo::Fp8);
    assert_eq!(resolve(all, "lm_head"), Algo::None);
    let two = json!({ "quant_algo": "MIXED_PRECISION", "config_groups": {
        "group_0": group(4, Value::Null, json!(["lm_head", "backbone.layers.1.mixer.experts"])),
        "group_1": group(4, json!({}), json!(["backbone.layers.2.mixer.in_proj"])),
    } });
    assert_eq!(resolve(two.clone(), "backbone.layers.1.mixer.experts.9.up_proj"), Algo::W4a16Nvfp4);
    assert_eq!(resolve(two.clone(), "lm_head"), Algo::W4a16Nvfp4);
    assert_eq!(resolve(two.clone(), "backbone.layers.2.mixer.in_proj"), Algo::Nvfp4);
    assert_eq!(resolve(two, "backbone.layers.0.mixer.in_proj"), Algo::None);
    let odd = json!({ "config_groups": { "g": group(3, Value::Null, json!(["Linear"])) } });
    assert!(parse(odd).unwrap_err().contains("config_groups.g"));
}

#[test]
fn nothing_is_nothing() {
    assert_eq!(resolve(json!({ "quantization": { "quant_algo": null } }), "lm_head"), Algo::None);
    assert_eq!(QuantConfig::default().resolve("lm_head").unwrap(), Algo::None);
}

#[test]
fn refused() {
    for (rules, word) in [
        (json!({ "quant_algo": "INT4_AWQ" }), "INT4_AWQ"),
        (json!({ "quant_algo": 8 }), "quant_algo"),
        (json!({ "quant_algo": "FP8", "quant_method": "gptq" }), "gptq"),
        (json!({ "quant_algo": "MIXED_PRECISION" }), "quantized_layers"),
        (json!({ "quant_algo": "MIXED_PRECISION", "quantized_layers": {} }), "quantized_layers"),
        (
            json!({ "quant_algo": "MIXED_PRECISION", "quantized_layers": { "x": { "quant_algo": "W8" } } }),
            "x",
        ),
        (json!({ "quant_algo": "MIXED_PRECISION", "quantized_layers": { "x": {} } }), "x"),
        (json!({ "quant_algo": "NVFP4", "group_size": 32 }), "group_size"),
        (json!({ "quant_algo": "NVFP4", "exclude_modules": "lm_head" }), "exclude_modules"),
        (json!({ "quant_algo": "NVFP4", "exclude_modules": [1] }), "exclude_modules"),
        (json!({ "quant_algo": "NVFP4", "exclude_modules": ["layers.[0-3].*"] }), "[0-3]"),
        (json!({ "quant_algo": "FP8", "kv_cache_quant_algo": "INT8" }), "kv_cache_quant_algo"),
        (
            json!({ "quant_algo": "FP8", "kv_cache_scheme": { "num_bits": 4, "type": "float" } }),
            "kv_cache_scheme",
        ),
        (json!([]), "map"),
    ] {
        let error = parse(rules.clone()).expect_err(&rules.to_string());
        assert!(error.contains(word) && error.contains("q.json"), "{error}: no {word}");
    }
}

#[test]
fn two_files_must_agree() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, json: Value| std::fs::write(dir.path().join(name), json.to_string()).unwrap();
    write(
        "hf_quant_config.json",
        json!({ "quantization": { "quant_algo": "FP8", "exclude_modules": ["lm_head"] } }),
    );
    write(
        "config.json",
        json!({ "quantization_config": { "quant_algo": "FP8", "ignore": ["lm_head", "mtp*"],
        "kv_cache_scheme": { "num_bits": 8, "type": "float" } } }),
    );
    let config = QuantConfig::load(dir.path()).unwrap();
    assert!(config.kv_cache_fp8);
    assert_eq!(config.resolve("backbone.layers.0.mixer.in_proj").unwrap(), Algo::Fp8);
    assert_eq!(config.resolve("lm_head").unwrap(), Algo::None);
    write("config.json", json!({ "quantization_config": { "quant_algo": "NVFP4", "ignore": ["lm_head"] } }));
    let config = QuantConfig::load(dir.path()).unwrap();
    assert_eq!(config.resolve("lm_head").unwrap(), Algo::None);
    let error = config.resolve("backbone.layers.0.mixer.in_proj").unwrap_err().to_string();
    assert!(error.contains("hf_quant_config.json") && error.contains("config.json: "), "{error}");
}

#[test]
fn the_oracles_agree_with_themselves() {
    let Some(dir) = oracle_dir("the_oracles_agree_with_themselves") else { return };
    for (name, in_proj, q_proj, expert, head) in [
        ("bf16", Algo::None, Algo::None, Algo::None, Algo::None),
        ("fp8", Algo::Fp8, Algo::Fp8, Algo::Fp8, Algo::None),
        ("nvfp4", Algo::Nvfp4, Algo::Nvfp4, Algo::Nvfp4, Algo::None),
        ("lightning", Algo::Fp8, Algo::None, Algo::W4a16Nvfp4, Algo::W4a16Nvfp4),
    ] {
        let config = QuantConfig::load(&dir.join(name)).unwrap();
        let algo = |module: &str| config.resolve(module).unwrap();
        assert_eq!(algo("backbone.layers.0.mixer.in_proj"), in_proj, "{name}");
        assert_eq!(algo("backbone.layers.3.mixer.q_proj"), q_proj, "{name}");
        assert_eq!(algo("backbone.layers.9.mixer.experts.7.down_proj"), expert, "{name}");
        assert_eq!(algo("lm_head"), head, "{name}");
    }
}

proptest! {
    #[test]
    fn never_panics(text in "[\\[\\]{}\":,a-z*?.0-9]{0,80}", module in "[a-z.0-9]{0,30}") {
        if let Ok(config) = QuantConfig::from_json(&text, Path::new("q.json")) {
            let _ = config.resolve(&module);
        }
    }

    #[test]
    fn globs_end(pattern in "[ab*?.]{0,24}", module in "[ab.]{0,48}") {
        let rules = json!({ "quant_algo": "FP8", "exclude_modules": [pattern] });
        if let Ok(config) = parse(rules) {
            let _ = config.resolve(&module);
        }
    }
}
