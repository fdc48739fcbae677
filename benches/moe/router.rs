//! 64 tokens over 128 experts, the best 6.

use criterion::{Criterion, Throughput};
use vt_kernels::moe::router::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::f32s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (rows, n_experts, top_k) = (64, 128, 6);
    let shape = Shape { n_experts, top_k, n_group: 1, topk_group: 1, norm_topk_prob: true };
    let plan = Plan::new(Arch::Sm121a, shape).unwrap();
    let (logits, bias) = (f32s(rows * n_experts), f32s(n_experts));
    let (mut ids, mut weights) = (vec![0; rows * top_k], vec![0.0; rows * top_k]);
    let mut group = c.benchmark_group("moe/router");
    group.sample_size(10).throughput(Throughput::Elements(rows as u64));
    group.bench_function("64x128", |bench| {
        bench.iter(|| {
            let logits = Rows::new("logits", &logits, rows, n_experts).unwrap();
            let mut ids = RowsMut::new("ids", &mut ids, rows, top_k).unwrap();
            plan.reference(
                logits,
                Some(&bias),
                &mut ids,
                &mut RowsMut::new("w", &mut weights, rows, top_k).unwrap(),
            )
            .unwrap()
        })
    });
}
