//! Elementary functions made of IEEE f32 additions, products, fused multiply-adds, quotients, square roots and integer
//! operations, in one fixed order: a device that does the same operations gets the same bits.
//!
//! A NaN result is 0x7fffffff. Errors are in units in the last place of the correctly rounded result (subnormal
//! results: of 2^-149), over all 2^32 inputs.

mod exp;
mod log;
pub mod table;

pub use exp::{exp, exp2, sigmoid, silu};
pub use log::{log1p, softplus};

use crate::element::NAN_F32;

/// `result`, or the NaN if it is one.
#[inline(always)]
fn canonical(result: f32) -> f32 {
    if result.is_nan() { NAN_F32 } else { result }
}

/// `c[0] + x (c[1] + x (c[2] + …))`, one fused multiply-add a step, from the highest power down.
#[inline(always)]
fn horner<const N: usize>(c: &[f32; N], x: f32) -> f32 {
    let mut sum = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum.mul_add(x, c[i]);
    }
    sum
}

/// Squared ReLU, `max(x, 0)²`: −0 and negative values give +0, NaN gives NaN. The product is rounded once.
#[inline(always)]
pub fn relu2(x: f32) -> f32 {
    let positive = if x > 0.0 { x } else { 0.0 };
    if x.is_nan() { NAN_F32 } else { positive * positive }
}

/// `1 / sqrt(x)`: the quotient of a correctly rounded root. ±0 gives ±∞, negative values NaN, ∞ gives 0. At most 1
/// ulp.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    canonical(1.0 / x.sqrt())
}
