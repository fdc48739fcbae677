//! `embedding/gather` at the width of Nemotron 30B-A3B, an eighth of its vocabulary.

use criterion::{BenchmarkId, Criterion, Throughput};
use half::bf16;
use vt_kernels::embedding::gather::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

/// Registers the benches.
pub fn benches(c: &mut Criterion) {
    let (vocab, cols) = (16384, 2688);
    let table = vec![bf16::ONE; vocab * cols];
    let plan = Plan::new(Arch::Sm121a, Shape { vocab, cols }).unwrap();
    let mut group = c.benchmark_group("embedding/gather");
    group.sample_size(10);
    for tokens in [1usize, 512] {
        let ids: Vec<u32> = (0..tokens).map(|i| (i * 7919 % vocab) as u32).collect();
        let mut out = vec![bf16::ZERO; tokens * cols];
        group.throughput(Throughput::Bytes((tokens * cols * 2) as u64));
        group.bench_function(BenchmarkId::from_parameter(format!("{tokens}x{cols}")), |b| {
            b.iter(|| {
                let rows = Rows::new("table", &table, vocab, cols).unwrap();
                plan.reference(rows, &ids, &mut RowsMut::new("out", &mut out, tokens, cols).unwrap())
            });
        });
    }
    group.finish();
}
