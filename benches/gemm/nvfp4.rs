//! An expert's up projection, W4A4: a slice of 512 outputs, one row and sixteen.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::format::Nvfp4;
use vt_kernels::gemm::nvfp4::{Plan, Shape};
use vt_kernels::{Arch, RowsMut};

/// Codes and scales of every kind.
pub fn weights(rows: usize, cols: usize) -> Nvfp4 {
    let packed = (0..rows * cols / 2).map(|i| (i * 37 % 251) as u8).collect();
    let scales = (0..rows * cols / 16).map(|i| 0x30 + (i % 16) as u8).collect();
    Nvfp4::new("x", rows, cols, packed, scales, 0.01).unwrap()
}

pub fn benches(c: &mut Criterion) {
    let (n, k) = (512, 2688);
    let b = weights(n, k);
    let plan = Plan::new(Arch::Sm121a, Shape { n, k }).unwrap();
    let mut group = c.benchmark_group("gemm/nvfp4");
    for m in [1, 16] {
        let a = weights(m, k);
        let mut out = vec![bf16::ZERO; m * n];
        group.sample_size(10).throughput(Throughput::Elements((m * n * k) as u64));
        group.bench_function(format!("m{m}_n{n}_k{k}"), |bench| {
            bench.iter(|| {
                let mut out = RowsMut::new("out", &mut out, m, n).unwrap();
                plan.reference(a.view(), b.view(), None, &mut out).unwrap()
            })
        });
    }
}
