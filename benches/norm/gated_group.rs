//! 64 rows of Nemotron 30B-A3B's Mamba width, 8 groups.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::norm::gated_group::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::bf16s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (rows, cols) = (64, 4096);
    let plan = Plan::new(Arch::Sm121a, Shape { cols, n_groups: 8 }).unwrap();
    let (x, gate, weight) = (bf16s(rows * cols), bf16s(rows * cols), bf16s(cols));
    let mut out = vec![bf16::ZERO; rows * cols];
    let mut group = c.benchmark_group("norm/gated_group");
    group.sample_size(10).throughput(Throughput::Bytes((3 * 2 * rows * cols) as u64));
    group.bench_function("64x4096", |bench| {
        bench.iter(|| {
            let (x, gate) =
                (Rows::new("x", &x, rows, cols).unwrap(), Rows::new("gate", &gate, rows, cols).unwrap());
            let mut out = RowsMut::new("out", &mut out, rows, cols).unwrap();
            plan.reference(x, gate, Some(&weight[..]), &mut out, 1e-5).unwrap()
        })
    });
}
