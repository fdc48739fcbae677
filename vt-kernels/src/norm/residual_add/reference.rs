//! The definition.

use crate::{Element, Rows, RowsMut};

pub(super) fn run<A: Element, B: Element, O: Element>(
    a: Rows<'_, A>,
    b: Rows<'_, B>,
    out: &mut RowsMut<'_, O>,
) {
    for i in 0..a.rows() {
        for ((a, b), out) in a.row(i).iter().zip(b.row(i)).zip(out.row_mut(i)) {
            *out = O::from_f32(a.to_f32() + b.to_f32());
        }
    }
}
