//! The Mamba projections of Lightning, W8A8: a slice of 512 outputs, one row and sixteen, both arms.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::format::E4m3;
use vt_kernels::gemm::fp8::{Plan, Scale, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

pub fn benches(c: &mut Criterion) {
    let (n, k) = (512, 2688);
    let value = |i: usize| E4m3::from_f32((i * 37 % 101) as f32 / 5.0 - 10.0);
    let b: Vec<E4m3> = (0..n * k).map(value).collect();
    let mut group = c.benchmark_group("gemm/fp8");
    for (arch, m) in [(Arch::Sm90a, 1), (Arch::Sm90a, 16), (Arch::Sm121a, 1), (Arch::Sm121a, 16)] {
        let plan = Plan::new(arch, Shape { n, k }).unwrap();
        let a: Vec<E4m3> = (0..m * k).map(value).collect();
        let mut out = vec![bf16::ZERO; m * n];
        let (a, b) = (Rows::new("a", &a, m, k).unwrap(), Rows::new("b", &b, n, k).unwrap());
        let scale = Scale::PerTensor(0.01);
        group.sample_size(10).throughput(Throughput::Elements((m * n * k) as u64));
        group.bench_function(format!("{arch}_m{m}_n{n}_k{k}"), |bench| {
            bench.iter(|| {
                let mut out = RowsMut::new("out", &mut out, m, n).unwrap();
                plan.reference(a, scale, b, scale, None, &mut out).unwrap()
            })
        });
    }
}
