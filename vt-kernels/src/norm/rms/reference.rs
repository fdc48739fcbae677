//! The definition.

use crate::host::dispatch;
use crate::math::rsqrt;
use crate::reduce::lane_sum;
use crate::{Element, Rows, RowsMut};

pub(super) fn run<T: Element, W: Element, R: Element, O: Element>(
    x: Rows<'_, T>,
    weight: &[W],
    mut residual: Option<&mut RowsMut<'_, R>>,
    out: &mut RowsMut<'_, O>,
    eps: f32,
) {
    let mut wide = vec![0.0f32; x.cols()];
    for i in 0..x.rows() {
        for (wide, x) in wide.iter_mut().zip(x.row(i)) {
            *wide = x.to_f32();
        }
        if let Some(residual) = &mut residual {
            for (wide, residual) in wide.iter_mut().zip(residual.row_mut(i)) {
                *residual = R::from_f32(residual.to_f32() + *wide);
                *wide = residual.to_f32();
            }
        }
        let out = out.row_mut(i);
        dispatch(
            #[inline(always)]
            || row(&wide, weight, out, eps),
        );
    }
}

#[inline(always)]
fn row<W: Element, O: Element>(x: &[f32], weight: &[W], out: &mut [O], eps: f32) {
    let squares = lane_sum(x.len(), 8, 256, |sum, i| x[i].mul_add(x[i], sum));
    let scale = rsqrt(squares / x.len() as f32 + eps);
    for ((x, weight), out) in x.iter().zip(weight).zip(out) {
        *out = O::from_f32(x * scale * weight.to_f32());
    }
}
