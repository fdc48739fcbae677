//! The definition.

use rayon::prelude::*;

use super::{Inputs, Shape};
use crate::host::dispatch;
use crate::mamba2::step_size;
use crate::math::{exp, silu};
use crate::reduce::lane_sum;
use crate::{Element, RowsMut};

/// One head of one sequence.
struct Head<'a, S, O> {
    row: usize,
    head: usize,
    state: &'a mut [S],
    out: &'a mut [O],
}

pub(super) fn run<T: Element, S: Element, O: Element>(
    shape: &Shape,
    inputs: &Inputs<'_, T>,
    state: &mut RowsMut<'_, S>,
    out: &mut RowsMut<'_, O>,
) {
    let mut states: Vec<Option<&mut [S]>> = state.rows_mut().into_iter().map(Some).collect();
    let mut heads = Vec::new();
    for ((row, out), &slot) in out.rows_mut().into_iter().enumerate().zip(inputs.slots) {
        let state = usize::try_from(slot).ok().and_then(|slot| states[slot].take());
        let Some(state) = state else {
            out.fill(O::from_f32(0.0));
            continue;
        };
        let states = state.chunks_exact_mut(shape.head_dim * shape.d_state);
        for (head, (state, out)) in states.zip(out.chunks_exact_mut(shape.head_dim)).enumerate() {
            heads.push(Head { row, head, state, out });
        }
    }
    heads.into_par_iter().for_each(|head| {
        dispatch(
            #[inline(always)]
            || step(shape, inputs, head),
        )
    });
}

#[inline(always)]
fn step<T: Element, S: Element, O: Element>(shape: &Shape, inputs: &Inputs<'_, T>, head: Head<'_, S, O>) {
    let Head { row, head: h, state, out } = head;
    let (head_dim, d_state) = (shape.head_dim, shape.d_state);
    let group = h / (shape.n_heads / shape.n_groups) * d_state;
    let widen = |x: &T| x.to_f32();
    let b: Vec<f32> = inputs.B.row(row)[group..][..d_state].iter().map(widen).collect();
    let c: Vec<f32> = inputs.C.row(row)[group..][..d_state].iter().map(widen).collect();
    let bias = inputs.dt_bias.map(|bias| bias[h]);
    let dt = step_size(inputs.dt.row(row)[h].to_f32(), bias, shape.dt_softplus, shape.dt_limit);
    let decay = exp(dt * inputs.A[h]);
    let mut s = vec![0.0f32; d_state];
    for (p, (state, out)) in state.chunks_exact_mut(d_state).zip(out).enumerate() {
        let x = inputs.x.row(row)[h * head_dim + p].to_f32();
        let scaled = dt * x;
        for ((s, state), b) in s.iter_mut().zip(&mut *state).zip(&b) {
            *s = state.to_f32().mul_add(decay, scaled * b);
            *state = S::from_f32(*s);
        }
        let mut y = lane_sum(d_state, 4, 32, |sum, n| s[n].mul_add(c[n], sum));
        if let Some(d) = inputs.D {
            y = d[h].mul_add(x, y);
        }
        if let Some(z) = &inputs.z {
            y *= silu(z.row(row)[h * head_dim + p].to_f32());
        }
        *out = O::from_f32(y);
    }
}
