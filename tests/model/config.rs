//! `config.json` of every model of the family, in every dialect, and what is refused.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use vt_model::config::{Config, GenerationConfig, LayerKind, StateDtype};

use crate::support::checkpoint::tiny;
use crate::support::oracle::{oracle_dir, root};

fn parse(text: &str) -> Result<Config, String> {
    Config::from_json(text, Path::new("c.json")).map_err(|e| e.to_string())
}

fn with(change: Value) -> Result<Config, String> {
    let mut config = tiny();
    config.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    parse(&config.to_string())
}

/// How many Mamba, attention, mixture and dense layers there are.
fn counts(config: &Config) -> [usize; 4] {
    [LayerKind::Mamba, LayerKind::Attention, LayerKind::Moe, LayerKind::Mlp]
        .map(|kind| config.layers.iter().filter(|layer| **layer == kind).count())
}

mod family {
    use super::*;

    /// The published fields that matter, of a dense model.
    fn dense(
        layers: usize,
        hidden: usize,
        ffn: usize,
        heads: [usize; 4],
        state: usize,
        pattern: &str,
    ) -> Config {
        let [q, kv, mamba, head_dim] = heads;
        let text = format!(
            r#"{{"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "torch_dtype": "bfloat16",
                "num_hidden_layers": {layers}, "hidden_size": {hidden}, "intermediate_size": {ffn},
                "num_attention_heads": {q}, "num_key_value_heads": {kv}, "attention_head_dim": 128,
                "mamba_num_heads": {mamba}, "mamba_head_dim": {head_dim}, "ssm_state_size": {state}, "n_groups": 8,
                "conv_kernel": 4, "chunk_size": 128, "expand": 2, "mamba_hidden_act": "silu",
                "mlp_hidden_act": "relu2", "hybrid_override_pattern": "{pattern}", "vocab_size": 131072,
                "time_step_limit": [0.0, Infinity], "use_bias": false, "use_conv_bias": true, "rope_theta": 10000,
                "layer_norm_epsilon": 1e-05, "residual_in_fp32": false, "tie_word_embeddings": false}}"#
        );
        parse(&text).unwrap()
    }

    const H_8B: &str = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-";

    #[test]
    fn nemotron_h_4b_and_8b() {
        let config = dense(52, 4096, 21504, [32, 8, 128, 64], 128, H_8B);
        assert_eq!(counts(&config), [24, 4, 0, 24]);
        assert_eq!((config.d_inner(), config.conv_dim(), config.in_proj_dim()), (8192, 10240, 18560));
        assert_eq!((config.head_dim, config.q_dim(), config.kv_dim()), (128, 4096, 1024));
        assert_eq!(config.time_step_limit, (0.0, f32::INFINITY));
        let config = dense(52, 3072, 12288, [32, 8, 112, 64], 128, H_8B);
        assert_eq!((config.d_inner(), config.q_dim()), (7168, 4096));
    }

    #[test]
    fn nemotron_h_47b_and_56b() {
        let deep = format!("M-M-M-M*-{}M-M-M-M-M-", "M-M-M-M-M*-".repeat(9));
        let config = dense(118, 8192, 32768, [64, 8, 256, 64], 256, &deep);
        assert_eq!(counts(&config), [54, 10, 0, 54]);
        assert_eq!(config.d_inner(), 16384);
        // The pruned model's own schedule is not published with its sizes; this one has as many layers.
        let config = dense(98, 8192, 30720, [64, 8, 256, 64], 256, &deep[..98]);
        assert_eq!((config.layers.len(), config.intermediate_size), (98, 30720));
    }

    #[test]
    fn nano_9b_v2() {
        let pattern = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-";
        let config = dense(56, 4480, 15680, [40, 8, 128, 80], 128, pattern);
        assert_eq!(counts(&config), [27, 4, 0, 25]);
        // Not `expand` times the hidden size.
        assert_eq!(config.d_inner(), 10240);
    }

    const NANO_3: &str = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME";

    #[test]
    fn nano_3_30b() {
        let config = parse(&format!(
            r#"{{"model_type": "nemotron_h", "hybrid_override_pattern": "{NANO_3}", "num_hidden_layers": 52,
                "hidden_size": 2688, "vocab_size": 131072, "num_attention_heads": 32, "num_key_value_heads": 2,
                "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8,
                "n_group": 1, "topk_group": 1, "n_routed_experts": 128, "n_shared_experts": 1,
                "num_experts_per_tok": 6, "moe_intermediate_size": 1856, "norm_topk_prob": true,
                "moe_shared_expert_intermediate_size": 3712, "routed_scaling_factor": 2.5, "intermediate_size": 1856,
                "max_position_embeddings": 262144, "torch_dtype": "bfloat16", "norm_eps": 1e-05, "eos_token_id": 2,
                "mamba_ssm_cache_dtype": "float32"}}"#
        ))
        .unwrap();
        assert_eq!(counts(&config), [23, 6, 23, 0]);
        assert_eq!((config.n_groups, config.n_group, config.in_proj_dim()), (8, 1, 10304));
        assert_eq!((config.moe_latent_size, config.routed_scaling_factor), (None, 2.5));
    }

    #[test]
    fn lightning_30b() {
        let name = |c| match c {
            'M' => "mamba",
            '*' => "attention",
            _ => "moe",
        };
        let names: Vec<&str> = NANO_3.chars().map(name).collect();
        let config = with(json!({
            "layers_block_type": names, "hybrid_override_pattern": null, "hidden_size": 2688, "dtype": "bfloat16",
            "num_nextn_predict_layers": 1, "mtp_layers_block_type": ["attention", "moe"],
            "max_position_embeddings": 1048576, "moe_shared_expert_overlap": true, "moe_latent_size": null,
            "time_step_limit": [0.0, { "__float__": "Infinity" }], "transformers_version": "5.8.1",
            "quantization_config": {
                "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
                "quantized_layers": { "lm_head": { "quant_algo": "W4A16_NVFP4", "group_size": 16 } },
                "kv_cache_scheme": { "dynamic": false, "num_bits": 8, "type": "float" },
            },
        }))
        .unwrap();
        assert_eq!(counts(&config), [23, 6, 23, 0]);
        assert_eq!((config.num_nextn_predict_layers, config.kv_cache_fp8), (1, true));
        assert_eq!(config.time_step_limit.1, f32::INFINITY);
    }

    #[test]
    fn super_120b() {
        let pattern =
            "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME";
        let config = with(json!({
            "hybrid_override_pattern": pattern, "num_hidden_layers": 88, "hidden_size": 4096,
            "n_routed_experts": 512, "num_experts_per_tok": 22, "moe_intermediate_size": 2688,
            "moe_shared_expert_intermediate_size": 5376, "moe_latent_size": 1024, "routed_scaling_factor": 5.0,
            "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E", "mamba_num_heads": 128,
            "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "moe_shared_expert_overlap": false,
        }))
        .unwrap();
        assert_eq!(counts(&config), [40, 8, 40, 0]);
        assert_eq!((config.moe_latent_size, config.in_proj_dim()), (Some(1024), 18560));
    }

    #[test]
    fn files() {
        let mut dirs = vec![root().join("tests/data/lightning")];
        if let Some(dir) = oracle_dir("config files") {
            dirs.extend(["bf16", "fp8", "nvfp4", "lightning", "latent"].map(|name| dir.join(name)));
        }
        for dir in dirs {
            let config = Config::load(&dir).unwrap();
            assert_eq!(config.time_step_limit, (0.0, f32::INFINITY));
            assert_eq!(
                (config.bos_token_id, &config.eos_token_id[..], config.pad_token_id),
                (Some(1), &[2][..], Some(0))
            );
            assert_eq!(config.kv_cache_fp8, dir.ends_with("lightning"));
            assert_eq!(GenerationConfig::load(&dir).unwrap().eos_token_id, [2]);
        }
    }
}

mod dialects {
    use super::*;

    #[test]
    fn names_of_layers() {
        let legacy = ["mamba", "moe", "attention", "mlp", "mamba2"];
        let new = ["linear_attention", "moe", "full_attention", "mlp", "linear_attention"];
        let drawn = with(json!({ "hybrid_override_pattern": "ME*-M" })).unwrap().layers;
        for (field, names) in
            [("layers_block_type", legacy), ("layer_types", new), ("layers_block_type", new)]
        {
            // The list wins over the pattern.
            assert_eq!(with(json!({ field: names, "num_hidden_layers": 5 })).unwrap().layers, drawn);
        }
    }

    #[test]
    fn legacy_fields_win() {
        let config = with(json!({
            "mamba_n_groups": 4, "n_groups": 2, "mamba_d_conv": 3, "mamba_chunk_size": 64, "chunk_size": 128,
            "mamba_conv_bias": false, "mamba_dt_limit": [0.5, 2], "time_step_limit": [0, 1], "time_step_min": 0.001,
        }))
        .unwrap();
        assert_eq!((config.n_groups, config.conv_kernel, config.chunk_size), (4, 3, 64));
        assert_eq!((config.use_conv_bias, config.time_step_limit), (false, (0.5, 2.0)));
        let config = with(json!({ "n_routed_experts": null, "num_local_experts": 16 })).unwrap();
        assert_eq!(config.n_routed_experts, 16);
    }

    #[test]
    fn defaults_of_transformers() {
        let config = parse("{}").unwrap();
        assert_eq!(counts(&config), [1, 1, 1, 1]);
        assert_eq!((config.hidden_size, config.vocab_size, config.head_dim), (4096, 131_072, 128));
        assert_eq!((config.num_attention_heads, config.num_key_value_heads), (32, 8));
        assert_eq!((config.bos_token_id, &config.eos_token_id[..]), (Some(1), &[2][..]));
        assert_eq!((config.mamba_ssm_cache_dtype, config.time_step_limit.0), (StateDtype::F32, 0.0));
        assert!(config.use_conv_bias && config.norm_topk_prob && !config.tie_word_embeddings);
        let config =
            parse(r#"{"num_key_value_heads": null, "eos_token_id": null, "bos_token_id": null}"#).unwrap();
        assert_eq!(
            (config.num_key_value_heads, config.bos_token_id, config.eos_token_id.len()),
            (32, None, 0)
        );
        assert_eq!(parse(r#"{"eos_token_id": [2, 11]}"#).unwrap().eos_token_id, [2, 11]);
        assert_eq!(parse(r#"{"intermediate_size": [64, 64]}"#).unwrap().intermediate_size, 64);
        assert_eq!(
            parse(r#"{"mamba_ssm_cache_dtype": "bfloat16"}"#).unwrap().mamba_ssm_cache_dtype,
            StateDtype::Bf16
        );
    }

    #[test]
    fn json5_around_infinity() {
        let config =
            parse("{ // written by hand\n head_dim: 64, 'time_step_limit': [0.5, +Infinity,], }").unwrap();
        assert_eq!((config.head_dim, config.time_step_limit), (64, (0.5, f32::INFINITY)));
    }

    #[test]
    fn infinity_in_each_form() {
        for text in ["Infinity", r#"{"__float__": "Infinity"}"#, r#"{"__float__": "inf"}"#, "1e999999"] {
            let parsed = parse(&format!(r#"{{"time_step_limit": [0.0, {text}]}}"#));
            match parsed {
                Ok(config) => assert_eq!(config.time_step_limit, (0.0, f32::INFINITY)),
                Err(error) => assert!(text.starts_with('1') && error.contains("c.json"), "{text}: {error}"),
            }
        }
    }

    #[test]
    fn suggestions_for_generation() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(GenerationConfig::load(dir.path()).unwrap(), GenerationConfig::default());
        let text =
            r#"{"eos_token_id": [2, 11], "do_sample": true, "temperature": 0.6, "top_p": 0.95, "top_k": 50}"#;
        std::fs::write(dir.path().join("generation_config.json"), text).unwrap();
        let config = GenerationConfig::load(dir.path()).unwrap();
        assert_eq!(
            (&config.eos_token_id[..], config.do_sample, config.top_k),
            (&[2, 11][..], true, Some(50))
        );
        assert_eq!((config.temperature, config.top_p), (Some(0.6), Some(0.95)));
        std::fs::write(dir.path().join("generation_config.json"), r#"{"top_k": 0}"#).unwrap();
        assert_eq!(GenerationConfig::load(dir.path()).unwrap().top_k, None);
    }
}

mod errors {
    use super::*;

    #[test]
    fn name_field_and_file() {
        for (field, value) in [
            ("hidden_size", json!(0)),
            ("hidden_size", json!(-1)),
            ("hidden_size", json!("32")),
            ("hidden_size", json!(32.5)),
            ("vocab_size", json!(1u64 << 40)),
            ("vocab_size", json!(u64::MAX)),
            ("n_groups", json!(3)),
            ("conv_kernel", json!(0)),
            ("chunk_size", json!(100)),
            ("num_key_value_heads", json!(3)),
            ("head_dim", json!(12)),
            ("n_group", json!(3)),
            ("topk_group", json!(2)),
            ("num_experts_per_tok", json!(5)),
            ("num_experts_per_tok", json!(0)),
            ("num_hidden_layers", json!(7)),
            ("model_type", json!("llama")),
            ("mlp_hidden_act", json!("silu")),
            ("mamba_hidden_act", json!("gelu")),
            ("mamba_ssm_cache_dtype", json!("float8")),
            ("layer_norm_epsilon", json!({ "__float__": "NaN" })),
            ("layer_norm_epsilon", json!(-1)),
            ("routed_scaling_factor", json!({ "__float__": "Infinity" })),
            ("time_step_limit", json!([1, 0])),
            ("time_step_limit", json!([0])),
            ("time_step_limit", json!([0, "x"])),
            ("use_bias", json!(1)),
            ("eos_token_id", json!(-1)),
            ("eos_token_id", json!("</s>")),
            ("intermediate_size", json!([64, 32])),
            ("hybrid_override_pattern", json!("MX")),
            ("hybrid_override_pattern", json!(3)),
            ("layers_block_type", json!(["mamba", "conv"])),
            ("layers_block_type", json!("mamba")),
            ("sliding_window", json!(0)),
            ("quantization_config", json!({ "quant_algo": "INT4" })),
        ] {
            let error = with(json!({ field: value })).expect_err(field);
            let named = if field == "quantization_config" { "quant_algo" } else { field };
            assert!(error.contains(named) && error.contains("c.json"), "{field} {value}: {error}");
        }
    }

    #[test]
    fn no_configuration() {
        for text in ["", "[]", "3", "{", "{\"a\": 1, \"a\": 2}", "null", "// {}"] {
            assert!(parse(text).unwrap_err().contains("c.json"), "{text}");
        }
        let nested = format!("{{\"a\": {}", "[".repeat(100_000));
        assert!(parse(&nested).unwrap_err().contains("deep"));
        for hidden in
            ["// ' \n", "// \" \r", "/* ' */", "/* ** \" **/", "// '\u{2028}", "'\\''", "'\"'", "\"\\\"'\""]
        {
            let nested = format!("{hidden}{{\"a\": Infinity, \"b\": {}", "[".repeat(100_000));
            assert!(parse(&nested).unwrap_err().contains("deep"), "{hidden}");
        }
        let quoted = format!("{{\"a\": \"{}\", \"time_step_limit\": [0, Infinity]}} // [", "[".repeat(100));
        assert!(parse(&quoted).is_ok());
        let long = format!("{{\"hybrid_override_pattern\": \"{}\"}}", "M".repeat(5000));
        assert!(parse(&long).unwrap_err().contains("at most 4096"));
        assert!(Config::load(Path::new("/nowhere")).unwrap_err().to_string().contains("config.json"));
    }

    proptest! {
        #[test]
        fn random_text_never_panics(text in "\\PC{0,60}", json in "[\\[\\]{}\":,0-9a-zIN.-]{0,60}") {
            let _ = (parse(&text), parse(&json));
        }

        /// Changed characters of a real file, read as JSON5 where they are not JSON.
        #[test]
        fn changed_text_never_panics(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), "[\\PC\n\\\\\"'{}\\[\\]/*+x]{0,3}"), 1..4),
        ) {
            let file = root().join("tests/data/lightning/config.json");
            let mut text: Vec<char> = std::fs::read_to_string(file).unwrap().chars().collect();
            for (at, new) in changes {
                let at = at.index(text.len());
                text.splice(at..at + 1, new.chars());
            }
            let text: String = text.into_iter().collect();
            let _ = (parse(&text), vt_model::quant::QuantConfig::from_json(&text, Path::new("q.json")).is_ok());
        }

        #[test]
        fn random_values_never_panic(which in any::<prop::sample::Index>(), number in any::<i64>(), kind in 0..4) {
            let config = tiny();
            let fields: Vec<&String> = config.as_object().unwrap().keys().collect();
            let value = match kind {
                0 => json!(number),
                1 => json!(number % 1024),
                2 => json!([number]),
                _ => json!(number.to_string()),
            };
            if let Ok(config) = with(json!({ fields[which.index(fields.len())]: value })) {
                let sizes = [config.d_inner(), config.conv_dim(), config.in_proj_dim(), config.q_dim(), config.kv_dim()];
                prop_assert!(sizes.iter().all(|size| *size > 0));
            }
        }
    }
}
