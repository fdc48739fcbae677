//! The definition.

use crate::math::relu2;
use crate::{Element, Rows, RowsMut};

pub(super) fn run<T: Element, O: Element>(x: Rows<'_, T>, out: &mut RowsMut<'_, O>) {
    for i in 0..x.rows() {
        for (x, out) in x.row(i).iter().zip(out.row_mut(i)) {
            *out = O::from_f32(relu2(x.to_f32()));
        }
    }
}
