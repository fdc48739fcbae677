//! The definition.

use super::{MIN_SCALE, Scale};
use crate::format::E4m3;
use crate::host::dispatch;
use crate::quant::amax;
use crate::{Element, Rows, RowsMut};

pub(super) fn run<T: Element>(x: Rows<'_, T>, scale: Scale<'_>, out: &mut RowsMut<'_, E4m3>) {
    match scale {
        Scale::PerTensor(scale) => {
            for i in 0..x.rows() {
                row(x.row(i), scale, out.row_mut(i));
            }
        }
        Scale::PerRow(scales) => {
            for (i, scale) in scales.iter_mut().enumerate() {
                let largest = amax(x.row(i).iter().map(|x| x.to_f32())) / 448.0;
                *scale = Element::from_f32(if largest < MIN_SCALE { MIN_SCALE } else { largest });
                row(x.row(i), *scale, out.row_mut(i));
            }
        }
    }
}

fn row<T: Element>(x: &[T], scale: f32, out: &mut [E4m3]) {
    dispatch(
        #[inline(always)]
        || {
            for (x, out) in x.iter().zip(&mut *out) {
                *out = E4m3::from_f32(x.to_f32() / scale);
            }
        },
    );
}
