//! The definition.

use super::Shape;
use crate::host::dispatch;
use crate::math::{rsqrt, silu};
use crate::reduce::lane_sum;
use crate::{Element, Rows, RowsMut};

pub(super) fn run<T: Element, W: Element, O: Element>(
    shape: &Shape,
    x: Rows<'_, T>,
    gate: Rows<'_, T>,
    weight: Option<&[W]>,
    out: &mut RowsMut<'_, O>,
    eps: f32,
) {
    let group = shape.cols / shape.n_groups;
    let mut v = vec![0.0f32; group];
    for i in 0..x.rows() {
        let out = out.row_mut(i);
        for g in 0..shape.n_groups {
            let cols = g * group..(g + 1) * group;
            let weight = weight.map(|weight| &weight[cols.clone()]);
            let (x, gate, out) = (&x.row(i)[cols.clone()], &gate.row(i)[cols.clone()], &mut out[cols]);
            dispatch(
                #[inline(always)]
                || norm::<T, W, O>(x, gate, weight, out, &mut v, eps),
            );
        }
    }
}

#[inline(always)]
fn norm<T: Element, W: Element, O: Element>(
    x: &[T],
    gate: &[T],
    weight: Option<&[W]>,
    out: &mut [O],
    v: &mut [f32],
    eps: f32,
) {
    for ((v, x), gate) in v.iter_mut().zip(x).zip(gate) {
        *v = x.to_f32() * silu(gate.to_f32());
    }
    let squares = lane_sum(v.len(), 8, 32, |sum, i| v[i].mul_add(v[i], sum));
    let scale = rsqrt(squares / v.len() as f32 + eps);
    for (j, (v, out)) in v.iter().zip(out).enumerate() {
        let normed = T::from_f32(v * scale).to_f32();
        *out = O::from_f32(match weight {
            Some(weight) => normed * weight[j].to_f32(),
            None => normed,
        });
    }
}
