//! The definition.

use std::cmp::Ordering;

use crate::sampling::softmax::{log_sum, normaliser};
use crate::{Element, Rows, RowsMut};

pub(super) fn run(
    logits: Rows<'_, f32>,
    chosen: &[u32],
    chosen_logprobs: &mut [f32],
    top_ids: &mut RowsMut<'_, u32>,
    top_logprobs: &mut RowsMut<'_, f32>,
) {
    for (i, &id) in chosen.iter().enumerate() {
        let row = logits.row(i);
        let (largest, sum) = normaliser(row);
        let log = log_sum(sum);
        let logprob = |logit: f32| {
            let difference = if logit == largest { 0.0 } else { logit - largest };
            let known = largest > f32::NEG_INFINITY;
            f32::from_f32(if known { difference - log } else { f32::NAN })
        };
        chosen_logprobs[i] = logprob(row[id as usize]);
        let best = top(row, top_ids.cols());
        for ((id, p), &token) in top_ids.row_mut(i).iter_mut().zip(top_logprobs.row_mut(i)).zip(&best) {
            (*id, *p) = (token, logprob(row[token as usize]));
        }
    }
}

/// The `n` best tokens, best first.
fn top(row: &[f32], n: usize) -> Vec<u32> {
    let order = |a: &u32, b: &u32| descending(row[*a as usize], row[*b as usize]).then(a.cmp(b));
    let mut ids: Vec<u32> = (0..row.len() as u32).collect();
    if n < ids.len() {
        ids.select_nth_unstable_by(n, order);
        ids.truncate(n);
    }
    ids.sort_unstable_by(order);
    ids
}

/// Larger first, NaN last, −0 and +0 equal.
fn descending(a: f32, b: f32) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => b.partial_cmp(&a).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    }
}
