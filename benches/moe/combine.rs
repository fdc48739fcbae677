//! 64 tokens of 6 experts and the shared one of Nemotron 30B-A3B.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::moe::combine::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::{bf16s, f32s};

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (rows, cols, top_k) = (64, 2688, 6);
    let plan = Plan::new(Arch::Sm121a, Shape { cols, top_k }).unwrap();
    let (experts, shared, weights) = (bf16s(rows * top_k * cols), bf16s(rows * cols), f32s(rows * top_k));
    let position: Vec<u32> = (0..(rows * top_k) as u32).rev().collect();
    let mut out = vec![bf16::ZERO; rows * cols];
    let mut group = c.benchmark_group("moe/combine");
    group.sample_size(10).throughput(Throughput::Bytes((2 * (top_k + 2) * rows * cols) as u64));
    group.bench_function("64x6x2688", |bench| {
        bench.iter(|| {
            let experts = Rows::new("expert_out", &experts, rows * top_k, cols).unwrap();
            let weights = Rows::new("weights", &weights, rows, top_k).unwrap();
            let shared = Some(Rows::new("shared", &shared, rows, cols).unwrap());
            let mut out = RowsMut::new("out", &mut out, rows, cols).unwrap();
            plan.reference(experts, &position, weights, shared, &mut out, 2.5).unwrap()
        })
    });
}
