//! 64 rows of Nemotron 30B-A3B's hidden size, with the residual.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::norm::rms::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::bf16s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (rows, cols) = (64, 2688);
    let plan = Plan::new(Arch::Sm121a, Shape { cols }).unwrap();
    let (x, weight) = (bf16s(rows * cols), bf16s(cols));
    let (mut residual, mut out) = (bf16s(rows * cols), vec![bf16::ZERO; rows * cols]);
    let mut group = c.benchmark_group("norm/rms");
    group.sample_size(10).throughput(Throughput::Bytes((4 * 2 * rows * cols) as u64));
    group.bench_function("64x2688", |bench| {
        bench.iter(|| {
            let x = Rows::new("x", &x, rows, cols).unwrap();
            let mut residual = RowsMut::new("residual", &mut residual, rows, cols).unwrap();
            let mut out = RowsMut::new("out", &mut out, rows, cols).unwrap();
            plan.reference(x, &weight, Some(&mut residual), &mut out, 1e-5).unwrap()
        })
    });
}
