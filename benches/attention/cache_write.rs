//! `attention/cache_write` for the heads of Nemotron 30B-A3B.

use criterion::{BenchmarkId, Criterion, Throughput};
use half::bf16;
use vt_kernels::attention::KvElement;
use vt_kernels::attention::cache_write::{Plan, Shape};
use vt_kernels::format::E4m3;
use vt_kernels::{Arch, Rows, RowsMut};

const COLS: usize = 256;
const SLOTS: usize = 4096;

fn bench<KV: KvElement>(c: &mut Criterion, name: &str, tokens: usize) {
    let k = vec![bf16::ONE; tokens * COLS];
    let slots: Vec<i64> = (0..tokens).map(|t| (t * 5 % SLOTS) as i64).collect();
    let (mut k_cache, mut v_cache) = (vec![KV::zeroed(); SLOTS * COLS], vec![KV::zeroed(); SLOTS * COLS]);
    let plan = Plan::new(Arch::Sm121a, Shape { n_kv_heads: 2, head_dim: 128 }).unwrap();
    let mut group = c.benchmark_group("attention/cache_write");
    group.sample_size(10).throughput(Throughput::Elements((tokens * COLS * 2) as u64));
    group.bench_function(BenchmarkId::from_parameter(format!("{name}-{tokens}")), |b| {
        b.iter(|| {
            let rows = Rows::new("k", &k, tokens, COLS).unwrap();
            let k_cache = &mut RowsMut::new("k_cache", &mut k_cache, SLOTS, COLS).unwrap();
            let v_cache = &mut RowsMut::new("v_cache", &mut v_cache, SLOTS, COLS).unwrap();
            plan.reference(rows, rows, &slots, k_cache, v_cache, 1.0, 1.0)
        });
    });
    group.finish();
}

/// Registers the benches.
pub fn benches(c: &mut Criterion) {
    bench::<bf16>(c, "bf16", 512);
    bench::<E4m3>(c, "fp8", 512);
}
