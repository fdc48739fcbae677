//! The definition.

use std::cmp::Ordering;

use super::Params;
use crate::Rows;
use crate::sampling::best;
use crate::sampling::philox::philox;
use crate::sampling::softmax::weight;

pub(super) fn run(logits: Rows<'_, f32>, params: &[Params], ids: &mut [u32]) {
    for (i, (params, id)) in params.iter().zip(ids).enumerate() {
        let row = logits.row(i);
        *id = if params.temperature == 0.0 { best(row) as u32 } else { draw(row, params) };
    }
}

fn draw(row: &[f32], params: &Params) -> u32 {
    let mut tokens: Vec<(u32, f32)> = (0u32..)
        .zip(row)
        .map(|(id, logit)| (id, logit / params.temperature))
        .filter(|(_, logit)| *logit > f32::NEG_INFINITY)
        .collect();
    tokens.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal).then(a.0.cmp(&b.0)));
    let Some(&(_, largest)) = tokens.first() else { return 0 };
    for (_, value) in &mut tokens {
        *value = weight(*value, largest);
    }
    tokens.retain(|(_, w)| *w >= params.min_p);
    if let Some(k) = params.top_k {
        tokens.truncate(k as usize);
    }
    let sum = |tokens: &[(u32, f32)]| tokens.iter().fold(0.0f32, |sum, (_, w)| sum + w);
    if params.top_p < 1.0 {
        let limit = params.top_p * sum(&tokens);
        let mut before = 0.0f32;
        tokens.retain(|(_, w)| {
            let kept = before < limit;
            before += w;
            kept
        });
    }
    let target = uniform(params) * sum(&tokens);
    let mut total = 0.0f32;
    let drawn = tokens.iter().find(|(_, w)| {
        total += w;
        total > target
    });
    // Rounding of the product can reach the whole sum: the last token that weighs anything then.
    drawn.or_else(|| tokens.iter().rfind(|(_, w)| *w > 0.0)).map_or(0, |(id, _)| *id)
}

/// In [0, 1), a multiple of 2^-24.
fn uniform(params: &Params) -> f32 {
    let words = |x: u64| [x as u32, (x >> 32) as u32];
    let ([low, high], key) = (words(params.step), words(params.seed));
    let word = philox([low, high, 0, 0], key)[0];
    (word >> 8) as f32 / (1u32 << 24) as f32
}
