//! One token of 8 sequences over Nemotron 30B-A3B's conv channels.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::conv1d::update::{Inputs, Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::bf16s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (batch, channels, width) = (8, 6144, 4);
    let plan = Plan::new(Arch::Sm121a, Shape { channels, width, silu: true }).unwrap();
    let (x, weight, bias) = (bf16s(batch * channels), bf16s(channels * width), bf16s(channels));
    let (mut state, mut out) = (bf16s(batch * channels * (width - 1)), vec![bf16::ZERO; batch * channels]);
    let mut group = c.benchmark_group("conv1d/update");
    group.sample_size(10).throughput(Throughput::Bytes((2 * 8 * batch * channels) as u64));
    group.bench_function("8x6144", |bench| {
        bench.iter(|| {
            let inputs = Inputs {
                x: Rows::new("x", &x, batch, channels).unwrap(),
                weight: Rows::new("weight", &weight, channels, width).unwrap(),
                bias: Some(&bias),
                slots: &[0, 1, 2, 3, 4, 5, 6, 7],
            };
            let mut state = RowsMut::new("state", &mut state, batch, channels * (width - 1)).unwrap();
            plan.reference(&inputs, &mut state, &mut RowsMut::new("out", &mut out, batch, channels).unwrap())
                .unwrap()
        })
    });
}
