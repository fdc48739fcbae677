//! 64 rows of Nemotron 30B-A3B's hidden size.

use criterion::{Criterion, Throughput};
use vt_kernels::quant::nvfp4::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::bf16s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (rows, cols) = (64, 2688);
    let plan = Plan::new(Arch::Sm121a, Shape { cols }).unwrap();
    let x = bf16s(rows * cols);
    let (mut packed, mut scales) = (vec![0; rows * cols / 2], vec![0; rows * cols / 16]);
    let mut group = c.benchmark_group("quant/nvfp4");
    group.sample_size(10).throughput(Throughput::Elements((rows * cols) as u64));
    group.bench_function("64x2688", |bench| {
        bench.iter(|| {
            let x = Rows::new("x", &x, rows, cols).unwrap();
            let mut packed = RowsMut::new("packed", &mut packed, rows, cols / 2).unwrap();
            plan.reference(
                x,
                1e-3,
                &mut packed,
                &mut RowsMut::new("s", &mut scales, rows, cols / 16).unwrap(),
            )
            .unwrap()
        })
    });
}
