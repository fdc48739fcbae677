//! The definition.

use rayon::prelude::*;

use super::chunk::{Group, Steps, head};
use super::{Inputs, Shape};
use crate::mamba2::step_size;
use crate::math::silu;
use crate::{Arch, Element, Result, RowsMut};

/// `y` and final states of the heads of one group in one sequence.
struct Done<O> {
    seq: usize,
    group: usize,
    /// `[tokens, heads of the group · head_dim]`.
    y: Vec<O>,
    /// `[heads of the group, d_state, head_dim]`.
    states: Vec<f32>,
}

pub(super) fn run<T: Element, O: Element>(
    arch: Arch,
    shape: &Shape,
    inputs: &Inputs<'_, T>,
    out: &mut RowsMut<'_, O>,
    final_states: &mut RowsMut<'_, f32>,
) -> Result<()> {
    let n_seqs = inputs.cu_seqlens.len() - 1;
    let tasks = (0..n_seqs * shape.n_groups).into_par_iter();
    let done: Result<Vec<Done<O>>> = tasks
        .map(|task| sequence(arch, shape, inputs, task / shape.n_groups, task % shape.n_groups))
        .collect();
    let (head_dim, d_state) = (shape.head_dim, shape.d_state);
    let heads = shape.n_heads / shape.n_groups;
    for Done { seq, group, y, states } in done? {
        let (first, width) = (group * heads * head_dim, heads * head_dim);
        for (i, y) in y.chunks_exact(width).enumerate() {
            out.row_mut(inputs.cu_seqlens[seq] as usize + i)[first..first + width].copy_from_slice(y);
        }
        let row = &mut final_states.row_mut(seq)[first * d_state..][..width * d_state];
        for (row, state) in
            row.chunks_exact_mut(head_dim * d_state).zip(states.chunks_exact(head_dim * d_state))
        {
            for (at, value) in row.iter_mut().enumerate() {
                *value = f32::from_f32(state[at % d_state * head_dim + at / d_state]);
            }
        }
    }
    Ok(())
}

fn sequence<T: Element, O: Element>(
    arch: Arch,
    shape: &Shape,
    inputs: &Inputs<'_, T>,
    seq: usize,
    group: usize,
) -> Result<Done<O>> {
    let Shape { head_dim, d_state, .. } = *shape;
    let heads = shape.n_heads / shape.n_groups;
    let tokens = inputs.cu_seqlens[seq] as usize..inputs.cu_seqlens[seq + 1] as usize;
    let columns = group * d_state..(group + 1) * d_state;
    let (b, c) = (inputs.B.columns("B", columns.clone())?, inputs.C.columns("C", columns)?);
    let initial = inputs.initial_states.filter(|_| inputs.has_initial[seq]);
    let mut states = vec![0.0; heads * d_state * head_dim];
    if let Some(initial) = initial {
        let row = &initial.row(seq)[group * heads * head_dim * d_state..];
        for (at, state) in states.iter_mut().enumerate() {
            let (h, n, p) = (at / (d_state * head_dim), at / head_dim % d_state, at % head_dim);
            *state = row[(h * head_dim + p) * d_state + n];
        }
    }
    let mut y = vec![O::from_f32(0.0); tokens.len() * heads * head_dim];
    let mut start = tokens.start;
    while start < tokens.end {
        let rows = start..tokens.end.min(start + shape.chunk_size);
        let shared = Group::new(arch, b.slice("B", rows.clone())?, c.slice("C", rows.clone())?)?;
        for (h, state) in states.chunks_exact_mut(d_state * head_dim).enumerate() {
            let index = group * heads + h;
            let bias = inputs.dt_bias.map(|bias| bias[index]);
            let dt = rows.clone().map(|i| {
                step_size(inputs.dt.row(i)[index].to_f32(), bias, shape.dt_softplus, shape.dt_limit)
            });
            let steps = Steps::new(dt.collect(), inputs.A[index]);
            let columns = index * head_dim..(index + 1) * head_dim;
            let x = inputs.x.columns("x", columns.clone())?.slice("x", rows.clone())?;
            let sums = head(shape, &shared, &steps, x, state)?;
            for (i, sums) in sums.chunks_exact(head_dim).enumerate() {
                let at = (rows.start - tokens.start + i) * heads * head_dim + h * head_dim;
                for (p, &sum) in sums.iter().enumerate() {
                    let skipped = inputs.D.map_or(sum, |d| d[index].mul_add(x.row(i)[p].to_f32(), sum));
                    let gate = inputs.z.map(|z| silu(z.row(rows.start + i)[columns.start + p].to_f32()));
                    y[at + p] = O::from_f32(gate.map_or(skipped, |gate| skipped * gate));
                }
            }
        }
        start = rows.end;
    }
    Ok(Done { seq, group, y, states })
}
