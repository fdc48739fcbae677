//! FP8 weights under bf16 activations: a slice of 512 outputs, one row and sixteen.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::format::E4m3;
use vt_kernels::gemm::fp8::Scale;
use vt_kernels::marlin::fp8::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

pub fn benches(c: &mut Criterion) {
    let (n, k) = (512, 2688);
    let value = |i: usize| (i * 37 % 101) as f32 / 5.0 - 10.0;
    let b: Vec<E4m3> = (0..n * k).map(|i| E4m3::from_f32(value(i))).collect();
    let plan = Plan::new(Arch::Sm121a, Shape { n, k }).unwrap();
    let mut group = c.benchmark_group("marlin/fp8");
    for m in [1, 16] {
        let a: Vec<bf16> = (0..m * k).map(|i| bf16::from_f32(value(i))).collect();
        let mut out = vec![bf16::ZERO; m * n];
        let (a, b) = (Rows::new("a", &a, m, k).unwrap(), Rows::new("b", &b, n, k).unwrap());
        group.sample_size(10).throughput(Throughput::Elements((m * n * k) as u64));
        group.bench_function(format!("m{m}_n{n}_k{k}"), |bench| {
            bench.iter(|| {
                let mut out = RowsMut::new("out", &mut out, m, n).unwrap();
                plan.reference(a, b, Scale::PerTensor(0.01), None, &mut out).unwrap()
            })
        });
    }
}
