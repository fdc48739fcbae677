//! One chunk of 128 tokens through 8 heads of one group, of Nemotron 30B-A3B's sizes.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::mamba2::chunk_scan::{Inputs, Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::{bf16s, f32s};

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (tokens, n_heads, head_dim, n_groups, d_state) = (128, 8, 64, 1, 128);
    let dt_limit = (0.0, f32::INFINITY);
    let shape = Shape { n_heads, head_dim, n_groups, d_state, chunk_size: 128, dt_softplus: true, dt_limit };
    let plan = Plan::new(Arch::Sm121a, shape).unwrap();
    let inner = n_heads * head_dim;
    let (x, dt) = (bf16s(tokens * inner), bf16s(tokens * n_heads));
    let (keys, queries) = (bf16s(tokens * d_state), bf16s(tokens * d_state));
    let (a, d) = (vec![-1.0; n_heads], f32s(n_heads));
    let (mut out, mut states) = (vec![bf16::ZERO; tokens * inner], vec![0.0; inner * d_state]);
    let mut group = c.benchmark_group("mamba2/chunk_scan");
    group.sample_size(10).throughput(Throughput::Elements((tokens * inner) as u64));
    group.bench_function("128t8h64p128n", |bench| {
        bench.iter(|| {
            let inputs = Inputs {
                x: Rows::new("x", &x, tokens, inner).unwrap(),
                dt: Rows::new("dt", &dt, tokens, n_heads).unwrap(),
                A: &a,
                B: Rows::new("B", &keys, tokens, d_state).unwrap(),
                C: Rows::new("C", &queries, tokens, d_state).unwrap(),
                D: Some(&d),
                z: None,
                dt_bias: Some(&d),
                cu_seqlens: &[0, tokens as u32],
                initial_states: None,
                has_initial: &[false],
            };
            let mut out = RowsMut::new("out", &mut out, tokens, inner).unwrap();
            plan.reference(
                &inputs,
                &mut out,
                &mut RowsMut::new("states", &mut states, 1, inner * d_state).unwrap(),
            )
            .unwrap()
        })
    });
}
