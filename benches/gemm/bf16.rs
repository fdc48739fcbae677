//! Attention's projections: a slice of 512 outputs, one row and sixteen.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::gemm::bf16::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

pub fn benches(c: &mut Criterion) {
    let (n, k) = (512, 2688);
    let value = |i: usize| bf16::from_f32((i * 37 % 101) as f32 / 50.0 - 1.0);
    let b: Vec<bf16> = (0..n * k).map(value).collect();
    let plan = Plan::new(Arch::Sm121a, Shape { n, k }).unwrap();
    let mut group = c.benchmark_group("gemm/bf16");
    for m in [1, 16] {
        let a: Vec<bf16> = (0..m * k).map(value).collect();
        let mut out = vec![bf16::ZERO; m * n];
        let (a, b) = (Rows::new("a", &a, m, k).unwrap(), Rows::new("b", &b, n, k).unwrap());
        group.sample_size(10).throughput(Throughput::Elements((m * n * k) as u64));
        group.bench_function(format!("m{m}_n{n}_k{k}"), |bench| {
            bench.iter(|| {
                let mut out = RowsMut::new("out", &mut out, m, n).unwrap();
                plan.reference(a, b, None, &mut out).unwrap()
            })
        });
    }
}
