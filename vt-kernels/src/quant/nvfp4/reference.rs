//! The definition.

use crate::Element;
use crate::format::{E2m1, NVFP4_BLOCK, Ue4m3, e2m1x2};
use crate::host::dispatch;
use crate::quant::amax;

/// The least ue4m3 above zero.
const MIN_SCALE: f32 = 1.0 / 512.0;

pub(super) fn row<T: Element>(x: &[T], global_scale: f32, packed: &mut [u8], scales: &mut [u8]) {
    dispatch(
        #[inline(always)]
        || {
            let blocks = x.chunks_exact(NVFP4_BLOCK).zip(packed.chunks_exact_mut(NVFP4_BLOCK / 2));
            for ((x, packed), scale) in blocks.zip(&mut *scales) {
                *scale = block(x, global_scale, packed);
            }
        },
    );
}

#[inline(always)]
fn block<T: Element>(x: &[T], global_scale: f32, packed: &mut [u8]) -> u8 {
    let wanted = amax(x.iter().map(|x| x.to_f32())) / (6.0 * global_scale);
    let scale = Ue4m3::from_f32(if wanted < MIN_SCALE { MIN_SCALE } else { wanted });
    let step = scale.to_f32() * global_scale;
    for (pair, byte) in x.chunks_exact(2).zip(packed) {
        let [lo, hi] = [pair[0], pair[1]].map(|x| E2m1::from_f32(x.to_f32() / step));
        *byte = e2m1x2::pack(lo, hi);
    }
    scale.to_bits()
}
