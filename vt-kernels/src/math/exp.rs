//! Exponentials.

use super::table::{EXP, EXP2, LN_2_HI, LN_2_LO, LOG2_E, ROUND};
use super::{canonical, horner};

/// A number `p · 2^n` whose scale is kept apart, so that one rounding makes a subnormal.
#[derive(Clone, Copy)]
struct Scaled {
    p: f32,
    half: f32,
    rest: f32,
}

impl Scaled {
    /// `n` is an integer within ±200, from [`ROUND`]'s low bits.
    #[inline(always)]
    fn new(p: f32, n: i32) -> Self {
        let half = n >> 1;
        Scaled { p, half: power(half), rest: power(n - half) }
    }

    /// `factor · p · 2^n`: the first product rounds, the first scaling is exact, the second rounds once if
    /// the result is subnormal.
    #[inline(always)]
    fn times(self, factor: f32) -> f32 {
        factor * self.p * self.half * self.rest
    }
}

/// 2^n for n within ±126.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// The integer nearest to `x` (ties to even) as f32 and i32, for |x| < 2^22.
#[inline(always)]
fn nearest(x: f32) -> (f32, i32) {
    let shifted = x + ROUND;
    (shifted - ROUND, shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32)
}

#[inline(always)]
fn scaled_exp(x: f32) -> Scaled {
    let x = x.clamp(-120.0, 120.0);
    let (n, integer) = nearest(x * LOG2_E);
    let r = (-n).mul_add(LN_2_HI, x);
    let r = (-n).mul_add(LN_2_LO, r);
    Scaled::new(horner(&EXP, r), integer)
}

/// `2^x`. `x` ≥ 128 gives ∞, `x` ≤ −150 gives 0 and what lies between −149 and −126 a subnormal. At most 0.88 ulp.
///
/// `n` = nearest integer, `2^(x − n)` by a polynomial of degree 6, times 2^n.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let clamped = x.clamp(-180.0, 180.0);
    let (n, integer) = nearest(clamped);
    canonical(Scaled::new(horner(&EXP2, clamped - n), integer).times(1.0))
}

/// `e^x`. Overflow gives ∞, underflow subnormals, then 0. At most 0.90 ulp.
///
/// `n` = nearest integer to `x · log2(e)`, `r = x − n · ln 2` in two steps, `e^r` by a polynomial of degree 6,
/// times 2^n.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    canonical(scaled_exp(x).times(1.0))
}

/// `1 / (1 + e^−x)`, as `e^−|x|` over `1 + e^−|x|` for negative `x`: no overflow. At most 2.41 ulp.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = scaled_exp(-x.abs()).times(1.0);
    canonical(if x < 0.0 { e } else { 1.0 } / (1.0 + e))
}

/// `x · sigmoid(x)`; −∞ gives −0. At most 3.35 ulp.
///
/// `x / (1 + e^−|x|)` for positive `x`, `(x · e^−|x|) / (1 + e^−|x|)` for negative, `x` multiplied before the
/// scale 2^n so that a subnormal result is rounded once.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    let e = scaled_exp(-x.abs());
    let bounded = if x < -150.0 { -150.0 } else { x };
    let numerator = if x < 0.0 { e.times(bounded) } else { x };
    canonical(numerator / (1.0 + e.times(1.0)))
}
