//! The definition.

use half::bf16;

use super::KvElement;
use crate::{Element, Rows, RowsMut};

pub(super) fn run<KV: KvElement>(x: Rows<'_, bf16>, slots: &[i64], cache: &mut RowsMut<'_, KV>, scale: f32) {
    for (token, &slot) in slots.iter().enumerate() {
        let Ok(slot) = usize::try_from(slot) else { continue };
        for (out, &x) in cache.row_mut(slot).iter_mut().zip(x.row(token)) {
            *out = KV::quantize(Element::to_f32(x), scale);
        }
    }
}
