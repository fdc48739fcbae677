//! 64 tokens of Nemotron 30B-A3B to 6 experts each.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::moe::gather::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::bf16s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (rows, cols, top_k) = (64, 2688, 6);
    let plan = Plan::new(Arch::Sm121a, Shape { cols, top_k }).unwrap();
    let x = bf16s(rows * cols);
    let source: Vec<u32> = (0..(rows * top_k) as u32).rev().collect();
    let mut out = vec![bf16::ZERO; rows * top_k * cols];
    let mut group = c.benchmark_group("moe/gather");
    group.sample_size(10).throughput(Throughput::Bytes((2 * 2 * rows * top_k * cols) as u64));
    group.bench_function("64x6x2688", |bench| {
        bench.iter(|| {
            let x = Rows::new("x", &x, rows, cols).unwrap();
            plan.reference(x, &source, &mut RowsMut::new("out", &mut out, rows * top_k, cols).unwrap())
                .unwrap()
        })
    });
}
