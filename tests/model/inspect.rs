//! What `inspect` counts, against counts made by hand and NVIDIA's own checkpoint.

use serde_json::json;
use vt_model::inspect::Report;
use vt_model::weights::{Param, Weights};

use crate::support::checkpoint::{Precision, Synthetic, tiny};
use crate::support::oracle::root;

fn report(synthetic: &Synthetic) -> Report {
    let dir = tempfile::tempdir().unwrap();
    synthetic.write(dir.path());
    Report::read(dir.path()).unwrap()
}

/// The sizes of Nemotron-3.5-Lightning-30B-A3B.
fn lightning() -> serde_json::Value {
    let mut config = tiny();
    let sizes = json!({
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "hidden_size": 2688,
        "vocab_size": 131072, "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 1856,
        "n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856,
        "moe_shared_expert_intermediate_size": 3712,
    });
    config.as_object_mut().unwrap().extend(sizes.as_object().unwrap().clone());
    config
}

#[test]
fn lightning_as_published() {
    let dir = tempfile::tempdir().unwrap();
    Synthetic::hollow(lightning(), Precision::Mixed).write_hollow(dir.path());
    let report = Report::read(dir.path()).unwrap();
    // 18,487 tensors, of which 270 are for multi-token prediction.
    assert_eq!(report.total.tensors, 18_487 - 270);
    assert!((31.0e9..32.0e9).contains(&(report.total.parameters as f64)), "{}", report.total.parameters);
    // MB: 774 routed experts, 890 FP8 Mamba, 281 attention, 198 head, 98 state; 2.53 GB in all.
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let token = report.token;
    assert!((mb(token.routed_experts) - 774.5).abs() < 1.0, "{token:?}");
    assert!((mb(token.mamba) - 892.0).abs() < 3.0, "{token:?}");
    assert!((mb(token.attention) - 281.0).abs() < 1.0, "{token:?}");
    assert!((mb(token.lm_head) - 198.2).abs() < 0.5, "{token:?}");
    assert!((mb(token.state) - 98.2).abs() < 0.5, "{token:?}");
    assert!((mb(token.total) - 2530.0).abs() < 40.0, "{token:?}");
    assert_eq!(report.kv_bytes_per_token, 6 * 2 * 2 * 128);
    let gb10 = report.roofline(273.0, 0);
    assert!((1000.0 / gb10 - 9.3).abs() < 0.2, "{gb10}");
    assert!(report.roofline(273.0, 100_000) < gb10);
}

#[test]
fn every_byte_is_somewhere() {
    for precision in [Precision::Bf16, Precision::Fp8, Precision::Nvfp4, Precision::Mixed] {
        let synthetic = Synthetic::new(tiny(), precision);
        let report = report(&synthetic);
        let bytes: usize = synthetic.tensors.values().map(|tensor| tensor.data.len()).sum();
        assert_eq!(report.total.bytes, bytes as u64);
        assert_eq!(report.total.tensors, synthetic.tensors.len() as u64);
        assert_eq!(report.precisions.values().map(|sum| sum.bytes).sum::<u64>(), bytes as u64);
        let kinds: Vec<&str> = report.blocks.iter().map(|block| block.kind.as_str()).collect();
        let expected = ["embeddings", "mamba", "moe", "mamba", "attention", "mlp", "moe", "norm", "lm_head"];
        assert_eq!(kinds, expected);
        let parts = report.token;
        let sum = parts.mamba + parts.attention + parts.routed_experts + parts.moe_other + parts.mlp;
        assert_eq!(sum + parts.lm_head + parts.other + parts.state, parts.total);
    }
}

#[test]
fn experts_are_one_row_of_the_table() {
    let report = report(&Synthetic::new(tiny(), Precision::Mixed));
    let moe = &report.blocks[2];
    let up = moe.modules.iter().find(|module| module.name == "experts.*.up_proj").unwrap();
    assert_eq!((up.count, &up.shape[..], &up.precision[..]), (4, &[32, 32][..], "W4A16_NVFP4"));
    assert_eq!(up.total.parameters, 4 * 32 * 32);
    assert_eq!(up.total.bytes, 4 * (32 * 16 + 32 * 2 + 4));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["blocks"][2]["layer"], 1);
}

#[test]
fn the_embedded_model() {
    let dir = root().join("tests/data/lightning");
    let report = Report::read(&dir).unwrap();
    let weights = Weights::load(&dir, &|_, _| ()).unwrap();
    assert_eq!(report.precisions.keys().collect::<Vec<_>>(), ["BF16", "F32", "FP8", "W4A16_NVFP4"]);
    assert!(matches!(weights.embeddings, Param::Bf16 { rows: 512, cols: 192, .. }));
    assert_eq!(report.blocks.len(), 10 + 3);
    // 4 Mamba layers of 8 heads of 64 with 128 states, 1024 channels with 3 inputs; 2 layers with one FP8 KV head.
    assert_eq!(report.state_bytes_per_sequence, 4 * (8 * 64 * 128 * 4 + 1024 * 3 * 2));
    assert_eq!(report.kv_bytes_per_token, 2 * 2 * 64);
}

#[test]
fn prediction_layers_count_apart() {
    let mut synthetic = Synthetic::new(tiny(), Precision::Bf16);
    let without = report(&synthetic);
    synthetic.floats("mtp.layers.0.norm.weight", &[32]);
    let with = report(&synthetic);
    assert_eq!((with.unused.tensors, with.unused.bytes), (1, 64));
    assert_eq!(with.total, without.total);
}
