//! The hidden layer of 384 rows of an expert of Nemotron 30B-A3B.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::moe::relu2::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::bf16s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (rows, cols) = (384, 1856);
    let plan = Plan::new(Arch::Sm121a, Shape { cols }).unwrap();
    let (x, mut out) = (bf16s(rows * cols), vec![bf16::ZERO; rows * cols]);
    let mut group = c.benchmark_group("moe/relu2");
    group.sample_size(10).throughput(Throughput::Bytes((2 * 2 * rows * cols) as u64));
    group.bench_function("384x1856", |bench| {
        bench.iter(|| {
            let x = Rows::new("x", &x, rows, cols).unwrap();
            plan.reference(x, &mut RowsMut::new("out", &mut out, rows, cols).unwrap()).unwrap()
        })
    });
}
