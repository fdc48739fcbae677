//! The definition.

use half::bf16;

use crate::attention::KvElement;
use crate::{Rows, RowsMut};

pub(super) fn run<KV: KvElement>(
    rows: Rows<'_, bf16>,
    slots: &[i64],
    cache: &mut RowsMut<'_, KV>,
    scale: f32,
) {
    for (t, &slot) in slots.iter().enumerate() {
        let Ok(slot) = usize::try_from(slot) else { continue };
        for (stored, value) in cache.row_mut(slot).iter_mut().zip(rows.row(t)) {
            *stored = KV::quantize(*value, scale);
        }
    }
}
