//! Logarithms.

use super::table::{ATANH, LN_2_HI, LN_2_LO, SQRT_HALF};
use super::{canonical, exp, horner};

/// `ln(1 + x)`. −1 gives −∞, what is below NaN, ∞ gives ∞; ±0 gives ±0. At most 0.90 ulp.
///
/// `1 + x = 2^k (1 + f)` with `1 + f` in [√½, √2); what the sum `1 + x` rounded away is divided by it and added.
/// With `s = f / (2 + f)` and `z = s²`, `ln(1 + f) = f − s (f − z P(z))`.
#[inline(always)]
pub fn log1p(x: f32) -> f32 {
    let u = 1.0 + x;
    let lost = if x >= 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
    let shifted = u.to_bits().wrapping_sub(SQRT_HALF.to_bits());
    let k = (shifted as i32) >> 23;
    let mantissa = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(SQRT_HALF.to_bits()));
    // Without a power of two 1 + x need not be formed: f is x itself.
    let f = if k == 0 { x } else { mantissa - 1.0 };
    let correction = if k == 0 { 0.0 } else { lost / u };
    let k = k as f32;
    let s = f / (2.0 + f);
    let z = s * s;
    let low = s.mul_add(z.mul_add(-horner(&ATANH, z), f), -k.mul_add(LN_2_LO, correction));
    let result = k.mul_add(LN_2_HI, f - low);
    let edge = if x == -1.0 { f32::NEG_INFINITY } else { x };
    let inside = x > -1.0 && x < f32::INFINITY && x != 0.0;
    canonical(if inside {
        result
    } else if x < -1.0 {
        f32::NAN
    } else {
        edge
    })
}

/// `ln(1 + e^x)`, and `x` itself above 20, where they are equal in f32. At most 1.73 ulp.
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let smooth = log1p(exp(if x > 20.0 { 20.0 } else { x }));
    if x > 20.0 { x } else { smooth }
}
