//! One row of a vocabulary of 131,072, the best two.

use criterion::{Criterion, Throughput};
use vt_kernels::sampling::logprobs::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::f32s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (vocab, top_n) = (131_072, 2);
    let plan = Plan::new(Arch::Sm121a, Shape { vocab, top_n }).unwrap();
    let logits = f32s(vocab);
    let mut group = c.benchmark_group("sampling/logprobs");
    group.sample_size(10).throughput(Throughput::Bytes(4 * vocab as u64));
    group.bench_function("1x131072", |bench| {
        bench.iter(|| {
            let (mut own, mut ids, mut best) = ([0.0], [0; 2], [0.0; 2]);
            let logits = Rows::new("logits", &logits, 1, vocab).unwrap();
            let mut ids = RowsMut::new("top_ids", &mut ids, 1, top_n).unwrap();
            let mut best = RowsMut::new("top_logprobs", &mut best, 1, top_n).unwrap();
            plan.reference(logits, &[7], &mut own, &mut ids, &mut best).unwrap()
        })
    });
}
