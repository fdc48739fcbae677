//! Loading a checkpoint, against reading its file: 64 MB, or `VT_BENCH_LOAD_GB`. Prints the ratio of the best times.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use serde_json::json;
use vt_model::weights::Weights;

#[path = "../../tests/support/checkpoint.rs"]
#[allow(dead_code)]
mod checkpoint;

use checkpoint::{Precision, Synthetic};

/// A model of every kind of layer whose experts fill `bytes`.
fn synthetic(bytes: usize, precision: Precision) -> Synthetic {
    let weight = if precision == Precision::Bf16 { 2.0 } else { 9.0 / 16.0 };
    let experts = (bytes as f64 - 40e6) / (2.0 * 2.0 * 1024.0 * 1024.0 * weight);
    let config = json!({
        "hybrid_override_pattern": "ME*-E", "hidden_size": 1024, "vocab_size": 4096, "mamba_num_heads": 16,
        "mamba_head_dim": 64, "n_groups": 2, "ssm_state_size": 128, "conv_kernel": 4, "num_attention_heads": 16,
        "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 2048, "moe_intermediate_size": 1024,
        "n_routed_experts": experts.max(4.0) as usize, "num_experts_per_tok": 2,
        "moe_shared_expert_intermediate_size": 1024,
    });
    Synthetic::new(config, precision)
}

/// Reads a file once, through one buffer.
fn read_plain(path: &Path, buffer: &mut [u8]) -> usize {
    let (mut file, mut total) = (std::fs::File::open(path).unwrap(), 0);
    loop {
        match file.read(buffer).unwrap() {
            0 => return total,
            n => total += n,
        }
    }
}

fn best(runs: usize, mut run: impl FnMut()) -> Duration {
    let timed = (0..runs).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed()
    });
    timed.min().unwrap_or_default()
}

/// Registers the benches of loading.
pub fn benches(c: &mut Criterion) {
    let size = std::env::var("VT_BENCH_LOAD_GB").ok().map_or(0.064, |gb| gb.parse().expect("a number of GB"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let mut group = c.benchmark_group("model/load");
    group.sample_size(10);
    for (precision, name) in [(Precision::Bf16, "bf16"), (Precision::Mixed, "mixed")] {
        synthetic((size * 1e9) as usize, precision).write(dir.path());
        let mut buffer = vec![0; 1 << 20];
        let bytes = read_plain(&path, &mut buffer);
        let load = || drop(Weights::load(dir.path(), &|_, _| ()).unwrap());
        let first = best(1, load);
        let reading = best(3, || assert_eq!(read_plain(&path, &mut buffer), bytes));
        let whole = best(3, || drop(std::fs::read(&path).unwrap()));
        let loading = best(3, load);
        let ratio = |other: Duration| loading.as_secs_f64() / other.as_secs_f64();
        eprintln!(
            "model/load/{name}: {:.3} GB in {loading:.0?} (at first {first:.0?}), {:.2} of reading it through a \
             buffer ({reading:.0?}), {:.2} of reading it into memory ({whole:.0?})",
            bytes as f64 / 1e9,
            ratio(reading),
            ratio(whole),
        );
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(name, |b| b.iter(load));
    }
    group.finish();
}
