//! `attention/flash` for the layer of Nemotron 30B-A3B: 32 query heads on 2 key-value heads of 128. Elements are
//! multiply-adds of the unmasked products.

use criterion::{BenchmarkId, Criterion, Throughput};
use half::bf16;
use vt_kernels::attention::KvElement;
use vt_kernels::attention::flash::{Inputs, Plan, Shape};
use vt_kernels::format::E4m3;
use vt_kernels::{Arch, Rows, RowsMut};

const SHAPE: Shape = Shape { n_heads: 32, n_kv_heads: 2, head_dim: 128, block_size: 16, window: None };

fn bench<KV: KvElement>(c: &mut Criterion, name: &str, seq_len: usize, queries: usize) {
    let (q_dim, kv_dim) = (32 * 128, 2 * 128);
    let value = |i: usize| (i * 7919 % 1009) as f32 / 504.5 - 1.0;
    let q: Vec<bf16> = (0..queries * q_dim).map(|i| bf16::from_f32(value(i))).collect();
    let pages = seq_len.div_ceil(SHAPE.block_size);
    let slots = pages * SHAPE.block_size;
    let cache: Vec<KV> = (0..slots * kv_dim).map(|i| KV::quantize(value(i + 3), 1.0)).collect();
    let cache = Rows::new("cache", &cache, slots, kv_dim).unwrap();
    let table: Vec<u32> = (0..pages as u32).rev().collect();
    let inputs = Inputs {
        q: Rows::new("q", &q, queries, q_dim).unwrap(),
        k_cache: cache,
        v_cache: cache,
        block_table: Rows::new("block_table", &table, 1, pages).unwrap(),
        cu_seqlens: &[0, queries as u32],
        seq_lens: &[seq_len as u32],
        softmax_scale: 0.088_388_346,
        k_scale: 1.0,
        v_scale: 1.0,
    };
    let seen: usize = (seq_len - queries..seq_len).map(|position| position + 1).sum();
    let plan = Plan::new(Arch::Sm121a, SHAPE).unwrap();
    let mut out = vec![bf16::ZERO; queries * q_dim];
    let mut group = c.benchmark_group("attention/flash");
    group.sample_size(10).throughput(Throughput::Elements((seen * q_dim * 2) as u64));
    group.bench_function(BenchmarkId::from_parameter(name), |b| {
        b.iter(|| plan.reference(&inputs, &mut RowsMut::new("out", &mut out, queries, q_dim).unwrap()));
    });
    group.finish();
}

/// Registers the benches.
pub fn benches(c: &mut Criterion) {
    bench::<bf16>(c, "decode-1024", 1024, 1);
    bench::<E4m3>(c, "decode-1024-fp8", 1024, 1);
    bench::<bf16>(c, "prefill-64", 64, 64);
    bench::<bf16>(c, "prefill-32-after-256", 288, 32);
}
