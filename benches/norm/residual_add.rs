//! 64 rows of Nemotron 30B-A3B's hidden size.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::norm::residual_add::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::bf16s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (rows, cols) = (64, 2688);
    let plan = Plan::new(Arch::Sm121a, Shape { cols }).unwrap();
    let (a, b) = (bf16s(rows * cols), bf16s(rows * cols));
    let mut out = vec![bf16::ZERO; rows * cols];
    let mut group = c.benchmark_group("norm/residual_add");
    group.sample_size(10).throughput(Throughput::Bytes((3 * 2 * rows * cols) as u64));
    group.bench_function("64x2688", |bench| {
        bench.iter(|| {
            let (a, b) = (Rows::new("a", &a, rows, cols).unwrap(), Rows::new("b", &b, rows, cols).unwrap());
            plan.reference(a, b, &mut RowsMut::new("out", &mut out, rows, cols).unwrap()).unwrap()
        })
    });
}
