//! One row of a vocabulary of 131,072, all filters.

use criterion::{Criterion, Throughput};
use vt_kernels::sampling::sample::{Params, Plan, Shape};
use vt_kernels::{Arch, Rows};

use crate::support::f32s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let vocab = 131_072;
    let plan = Plan::new(Arch::Sm121a, Shape { vocab }).unwrap();
    let logits = f32s(vocab);
    let params = [Params { temperature: 0.8, top_k: Some(50), top_p: 0.95, min_p: 0.01, seed: 1, step: 0 }];
    let mut group = c.benchmark_group("sampling/sample");
    group.sample_size(10).throughput(Throughput::Bytes(4 * vocab as u64));
    group.bench_function("1x131072", |bench| {
        bench.iter(|| {
            plan.reference(Rows::new("logits", &logits, 1, vocab).unwrap(), &params, &mut [0]).unwrap()
        })
    });
}
