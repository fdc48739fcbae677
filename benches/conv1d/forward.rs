//! A prefill of 64 tokens over Nemotron 30B-A3B's conv channels.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::conv1d::forward::{Inputs, Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::bf16s;

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (tokens, channels, width) = (64, 6144, 4);
    let plan = Plan::new(Arch::Sm121a, Shape { channels, width, silu: true }).unwrap();
    let (x, weight, bias) = (bf16s(tokens * channels), bf16s(channels * width), bf16s(channels));
    let (mut state, mut out) = (bf16s(channels * (width - 1)), vec![bf16::ZERO; tokens * channels]);
    let mut group = c.benchmark_group("conv1d/forward");
    group.sample_size(10).throughput(Throughput::Bytes((2 * 2 * tokens * channels) as u64));
    group.bench_function("64x6144", |bench| {
        bench.iter(|| {
            let inputs = Inputs {
                x: Rows::new("x", &x, tokens, channels).unwrap(),
                weight: Rows::new("weight", &weight, channels, width).unwrap(),
                bias: Some(&bias),
                cu_seqlens: &[0, tokens as u32],
                slots: &[0],
                has_initial: &[true],
            };
            let mut state = RowsMut::new("state", &mut state, 1, channels * (width - 1)).unwrap();
            plan.reference(&inputs, &mut state, &mut RowsMut::new("out", &mut out, tokens, channels).unwrap())
                .unwrap()
        })
    });
}
