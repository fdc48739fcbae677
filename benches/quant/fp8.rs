//! 64 rows of Nemotron 30B-A3B's hidden size, static scale.

use criterion::{Criterion, Throughput};
use vt_kernels::format::E4m3;
use vt_kernels::quant::fp8::{Plan, Scale, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::bf16s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (rows, cols) = (64, 2688);
    let plan = Plan::new(Arch::Sm121a, Shape { cols }).unwrap();
    let (x, mut out) = (bf16s(rows * cols), vec![E4m3::default(); rows * cols]);
    let mut group = c.benchmark_group("quant/fp8");
    group.sample_size(10).throughput(Throughput::Elements((rows * cols) as u64));
    group.bench_function("64x2688", |bench| {
        bench.iter(|| {
            let x = Rows::new("x", &x, rows, cols).unwrap();
            let mut out = RowsMut::new("out", &mut out, rows, cols).unwrap();
            plan.reference(x, Scale::PerTensor(0.01), &mut out).unwrap()
        })
    });
}
