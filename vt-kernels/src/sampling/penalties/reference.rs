//! The definition.

use super::Penalties;
use crate::{Element, RowsMut};

pub(super) fn run(params: &[Penalties], prompt: &[&[u32]], output: &[&[u32]], logits: &mut RowsMut<'_, f32>) {
    for (i, params) in params.iter().enumerate() {
        let row = logits.row_mut(i);
        let mut seen: Vec<u32> = prompt[i].iter().chain(output[i]).copied().collect();
        seen.sort_unstable();
        seen.dedup();
        let mut produced = output[i].to_vec();
        produced.sort_unstable();
        for &id in &seen {
            let logit = &mut row[id as usize];
            let repeated = if *logit > 0.0 { *logit / params.repetition } else { *logit * params.repetition };
            *logit = f32::from_f32(if params.repetition == 1.0 { *logit } else { repeated });
        }
        for same in produced.chunk_by(|a, b| a == b) {
            let logit = &mut row[same[0] as usize];
            let frequent = *logit - same.len() as f32 * params.frequency;
            *logit = f32::from_f32(frequent - params.presence);
        }
    }
}
