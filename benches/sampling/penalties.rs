//! A vocabulary of 131,072 after a prompt of 1,000 and an output of 1,000.

use criterion::{Criterion, Throughput};
use vt_kernels::sampling::penalties::{Penalties, Plan, Shape};
use vt_kernels::{Arch, RowsMut};

use crate::support::f32s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let vocab = 131_072;
    let plan = Plan::new(Arch::Sm121a, Shape { vocab }).unwrap();
    let mut logits = f32s(vocab);
    let (prompt, output): (Vec<u32>, Vec<u32>) = (0..1000).map(|i| (i * 131, i * 7)).unzip();
    let params = [Penalties { repetition: 1.1, presence: 0.1, frequency: 0.1 }];
    let mut group = c.benchmark_group("sampling/penalties");
    group.sample_size(10).throughput(Throughput::Elements(2000));
    group.bench_function("1x131072", |bench| {
        bench.iter(|| {
            let mut logits = RowsMut::new("logits", &mut logits, 1, vocab).unwrap();
            plan.reference(&params, &[&prompt], &[&output], &mut logits).unwrap()
        })
    });
}
