//! One token of one sequence through a Mamba layer of Nemotron 30B-A3B.

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::mamba2::state_update::{Inputs, Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::{bf16s, f32s};

/// Times the reference.
pub fn benches(c: &mut Criterion) {
    let (n_heads, head_dim, n_groups, d_state) = (64, 64, 8, 128);
    let dt_limit = (0.0, f32::INFINITY);
    let shape = Shape { n_heads, head_dim, n_groups, d_state, dt_softplus: true, dt_limit };
    let plan = Plan::new(Arch::Sm121a, shape).unwrap();
    let inner = n_heads * head_dim;
    let (x, dt, keys, queries) =
        (bf16s(inner), bf16s(n_heads), bf16s(n_groups * d_state), bf16s(n_groups * d_state));
    let (a, d) = (vec![-1.0; n_heads], f32s(n_heads));
    let (mut state, mut out) = (f32s(inner * d_state), vec![bf16::ZERO; inner]);
    let mut group = c.benchmark_group("mamba2/state_update");
    group.sample_size(10).throughput(Throughput::Bytes((2 * 4 * inner * d_state) as u64));
    group.bench_function("64h64p128n", |bench| {
        bench.iter(|| {
            let inputs = Inputs {
                x: Rows::new("x", &x, 1, inner).unwrap(),
                dt: Rows::new("dt", &dt, 1, n_heads).unwrap(),
                A: &a,
                B: Rows::new("B", &keys, 1, n_groups * d_state).unwrap(),
                C: Rows::new("C", &queries, 1, n_groups * d_state).unwrap(),
                D: Some(&d),
                z: None,
                dt_bias: Some(&d),
                slots: &[0],
            };
            let mut state = RowsMut::new("state", &mut state, 1, inner * d_state).unwrap();
            plan.reference(&inputs, &mut state, &mut RowsMut::new("out", &mut out, 1, inner).unwrap())
                .unwrap()
        })
    });
}
