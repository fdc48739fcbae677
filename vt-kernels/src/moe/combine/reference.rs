//! The definition.

use crate::host::dispatch;
use crate::{Element, Rows, RowsMut};

pub(super) fn run<T: Element, O: Element>(
    top_k: usize,
    expert_out: Rows<'_, T>,
    position: &[u32],
    weights: Rows<'_, f32>,
    shared: Option<Rows<'_, T>>,
    out: &mut RowsMut<'_, O>,
    routed_scaling_factor: f32,
) {
    let mut sum = vec![0.0f32; out.cols()];
    for (t, rows) in position.chunks_exact(top_k).enumerate() {
        sum.fill(0.0);
        dispatch(
            #[inline(always)]
            || {
                for (&row, &weight) in rows.iter().zip(weights.row(t)) {
                    for (sum, x) in sum.iter_mut().zip(expert_out.row(row as usize)) {
                        *sum = weight.mul_add(x.to_f32(), *sum);
                    }
                }
            },
        );
        for (c, (out, sum)) in out.row_mut(t).iter_mut().zip(&sum).enumerate() {
            let routed = routed_scaling_factor * sum;
            *out = O::from_f32(match &shared {
                Some(shared) => routed + shared.row(t)[c].to_f32(),
                None => routed,
            });
        }
    }
}
