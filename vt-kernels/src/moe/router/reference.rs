//! The definition.

use super::Shape;
use crate::math::sigmoid;
use crate::{Element, Rows, RowsMut};

pub(super) fn run(
    shape: &Shape,
    logits: Rows<'_, f32>,
    correction_bias: Option<&[f32]>,
    ids: &mut RowsMut<'_, u32>,
    weights: &mut RowsMut<'_, f32>,
) {
    for i in 0..logits.rows() {
        let scores: Vec<f32> = logits.row(i).iter().map(|&logit| sigmoid(logit)).collect();
        let choices: Vec<f32> = match correction_bias {
            Some(bias) => scores.iter().zip(bias).map(|(score, bias)| score + bias).collect(),
            None => scores.clone(),
        };
        let ids = ids.row_mut(i);
        choose(shape, &choices, ids);
        let weights = weights.row_mut(i);
        for (weight, &id) in weights.iter_mut().zip(&*ids) {
            *weight = scores[id as usize];
        }
        if shape.norm_topk_prob {
            let sum = weights.iter().fold(0.0, |sum, weight| sum + weight) + 1e-20;
            weights.iter_mut().for_each(|weight| *weight = f32::from_f32(*weight / sum));
        }
    }
}

/// Writes the ids of the best choices, best first.
fn choose(shape: &Shape, choices: &[f32], ids: &mut [u32]) {
    let size = shape.n_experts / shape.n_group;
    let mut groups: Vec<(usize, f32)> = choices.chunks_exact(size).map(best_two).enumerate().collect();
    sort_best_first(&mut groups);
    groups.truncate(shape.topk_group);
    groups.sort_by_key(|(group, _)| *group);
    let mut experts: Vec<(usize, f32)> = groups
        .iter()
        .flat_map(|(group, _)| group * size..(group + 1) * size)
        .map(|e| (e, choices[e]))
        .collect();
    sort_best_first(&mut experts);
    for (id, (expert, _)) in ids.iter_mut().zip(experts) {
        *id = expert as u32;
    }
}

/// Sum of the two largest choices, the one choice of a group of one.
fn best_two(choices: &[f32]) -> f32 {
    let mut sorted: Vec<(usize, f32)> = choices.iter().copied().enumerate().collect();
    sort_best_first(&mut sorted);
    match sorted[..] {
        [(_, best), (_, second), ..] => best + second,
        [(_, best)] => best,
        [] => f32::NEG_INFINITY,
    }
}

/// Descending; NaN last; what is equal stays in ascending order of its number.
fn sort_best_first(items: &mut [(usize, f32)]) {
    items.sort_by(|(_, a), (_, b)| match (a.is_nan(), b.is_nan()) {
        (false, false) => b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal),
        (a, b) => a.cmp(&b),
    });
}
