//! The definition.

use crate::Rows;
use crate::sampling::best;

pub(super) fn run(logits: Rows<'_, f32>, ids: &mut [u32]) {
    for (i, id) in ids.iter_mut().enumerate() {
        *id = best(logits.row(i)) as u32;
    }
}
