//! 1,024 tokens of 6 experts each, of 128.

use criterion::{Criterion, Throughput};
use vt_kernels::moe::permute::{Plan, Shape};
use vt_kernels::{Arch, Rows};

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (rows, n_experts, top_k) = (1024, 128, 6);
    let plan = Plan::new(Arch::Sm121a, Shape { n_experts, top_k }).unwrap();
    let ids: Vec<u32> = (0..rows * top_k).map(|i| (i * 37 % n_experts) as u32).collect();
    let (mut offsets, mut source, mut position) =
        (vec![0; n_experts + 1], vec![0; ids.len()], vec![0; ids.len()]);
    let mut group = c.benchmark_group("moe/permute");
    group.sample_size(10).throughput(Throughput::Elements((rows * top_k) as u64));
    group.bench_function("1024x6", |bench| {
        bench.iter(|| {
            let ids = Rows::new("ids", &ids, rows, top_k).unwrap();
            plan.reference(ids, &mut offsets, &mut source, &mut position).unwrap()
        })
    });
}
