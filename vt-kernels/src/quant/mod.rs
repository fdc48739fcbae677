//! Quantisation of activations to FP8 and NVFP4, as ModelOpt defines it.

pub mod fp8;
pub mod nvfp4;

/// The largest magnitude of a row; NaN if there is one.
#[inline(always)]
fn amax(values: impl Iterator<Item = f32>) -> f32 {
    // Magnitudes order as their bits do, NaN above infinity.
    let bits = values.fold(0, |max: u32, x| max.max(x.to_bits() & 0x7fff_ffff));
    f32::from_bits(bits)
}
