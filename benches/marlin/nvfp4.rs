//! Lightning's experts, W4A16: a slice of 512 outputs, one row and sixteen; and one token's six experts.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::format::Nvfp4;
use vt_kernels::marlin::nvfp4::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::gemm::nvfp4::weights;

pub fn benches(c: &mut Criterion) {
    let value = |i: usize| bf16::from_f32((i * 37 % 101) as f32 / 50.0 - 1.0);
    let (n, k) = (512, 2688);
    let b = weights(n, k);
    let plan = Plan::new(Arch::Sm121a, Shape { n, k }).unwrap();
    let mut group = c.benchmark_group("marlin/nvfp4");
    group.sample_size(10);
    for m in [1, 16] {
        let a: Vec<bf16> = (0..m * k).map(value).collect();
        let mut out = vec![bf16::ZERO; m * n];
        let a = Rows::new("a", &a, m, k).unwrap();
        group.throughput(Throughput::Elements((m * n * k) as u64));
        group.bench_function(format!("m{m}_n{n}_k{k}"), |bench| {
            bench.iter(|| {
                let mut out = RowsMut::new("out", &mut out, m, n).unwrap();
                plan.reference(a, b.view(), None, &mut out).unwrap()
            })
        });
    }
    let (n, k) = (464, 2688);
    let plan = Plan::new(Arch::Sm121a, Shape { n, k }).unwrap();
    let experts: Vec<Nvfp4> = (0..6).map(|_| weights(n, k)).collect();
    let experts: Vec<_> = experts.iter().map(Nvfp4::view).collect();
    let a: Vec<bf16> = (0..6 * k).map(value).collect();
    let a = Rows::new("a", &a, 6, k).unwrap();
    let mut out = vec![bf16::ZERO; 6 * n];
    group.throughput(Throughput::Elements((6 * n * k) as u64));
    group.bench_function(format!("grouped_e6_n{n}_k{k}"), |bench| {
        bench.iter(|| {
            let mut out = RowsMut::new("out", &mut out, 6, n).unwrap();
            plan.reference_grouped(a, &[0, 1, 2, 3, 4, 5, 6], &experts, &mut out).unwrap()
        })
    });
}
