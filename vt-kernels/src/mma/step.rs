//! The definition: one step of a unit on decoded operands, in integers.
//!
//! A step takes products `p_i` and the accumulator `c`, all *terms*: an integer significand with `frac`
//! fraction bits and an exponent that is never renormalised (a subnormal keeps the smallest exponent of its
//! format, 1.5 × 1.5 = 2.25 keeps exponent 0). With `E` the largest exponent of the non-zero terms, at least
//! `E0`, each term is cut toward zero to a multiple of `2^(E - F)`; the sum of these is exact and is rounded
//! once. An exact zero, and a negative sum that truncates to zero, is +0.

use super::format::{Format, Number};
use super::unit::Round;

/// Exponent of a zero: below every floor.
const NONE: i32 = i32::MIN / 4;

/// A summand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// `sig · 2^(exp - frac)`; a zero product or accumulator has an exponent below every floor.
    Finite {
        /// Signed significand.
        sig: i64,
        /// Its fraction bits.
        frac: i32,
        /// Exponent, as the operands' formats give it.
        exp: i32,
    },
    /// An infinity.
    Infinite {
        /// Its sign.
        negative: bool,
    },
    /// Not a number.
    Nan,
}

impl Term {
    /// The accumulator as a term.
    pub fn accumulator(c: Number) -> Term {
        match c {
            Number::Finite { sig, frac, exp } => {
                Term::Finite { sig, frac, exp: if sig == 0 { NONE } else { exp } }
            }
            Number::Infinite { negative } => Term::Infinite { negative },
            Number::Nan => Term::Nan,
        }
    }

    /// `a · b · 2^scale`, exact.
    pub fn product(a: Number, b: Number, scale: i32) -> Term {
        match (a, b) {
            (Number::Finite { sig: x, frac: m, exp: e }, Number::Finite { sig: y, frac: n, exp: f }) => {
                let sig = x * y;
                Term::Finite { sig, frac: m + n, exp: if sig == 0 { NONE } else { e + f + scale } }
            }
            (Number::Nan, _) | (_, Number::Nan) => Term::Nan,
            (Number::Infinite { .. }, Number::Finite { sig: 0, .. })
            | (Number::Finite { sig: 0, .. }, Number::Infinite { .. }) => Term::Nan,
            _ => Term::Infinite { negative: a.negative() != b.negative() },
        }
    }

    /// A group of 16 e2m1 products times the product of its scales. The exponent is the scales' alone: it
    /// counts although the products cancel, unless all of them (or the scale) are zero.
    pub fn group(products: impl Iterator<Item = Term>, scale_a: Number, scale_b: Number) -> Term {
        let (mut sum, mut empty) = (0, true);
        for product in products {
            let Term::Finite { sig, exp, .. } = product else { return Term::Nan };
            // Two fraction bits, exponents 0 to 4: the sum is exact in quarters.
            sum += sig << exp.max(0);
            empty &= sig == 0;
        }
        match Term::product(scale_a, scale_b, 0) {
            Term::Finite { sig, frac, exp } => {
                Term::Finite { sig: sum * sig, frac: frac + 2, exp: if empty { NONE } else { exp } }
            }
            special => special,
        }
    }
}

/// The sum of `terms` on a grid `fraction` bits below their largest exponent, rounded: bits of an f32, or of
/// an f16 in the low half.
pub fn sum(terms: impl Iterator<Item = Term> + Clone, fraction: i32, floor: i32, round: Round) -> u32 {
    let (mut plus, mut minus, mut top) = (false, false, floor);
    for term in terms.clone() {
        match term {
            Term::Nan => return round.nan(),
            Term::Infinite { negative: false } => plus = true,
            Term::Infinite { negative: true } => minus = true,
            Term::Finite { exp, .. } => top = top.max(exp),
        }
    }
    match (plus, minus) {
        (true, true) => return round.nan(),
        (true, false) => return round.infinity(false),
        (false, true) => return round.infinity(true),
        (false, false) => {}
    }
    let aligned = terms.map(|term| match term {
        Term::Finite { sig, frac, exp } if sig != 0 => shift(sig, exp - top + fraction - frac),
        _ => 0,
    });
    round.encode(aligned.sum(), top - fraction)
}

/// `sig · 2^by`, cut toward zero.
fn shift(sig: i64, by: i32) -> i64 {
    let magnitude = sig.unsigned_abs();
    let moved = if by >= 0 { magnitude << by } else { magnitude.checked_shr(by.unsigned_abs()).unwrap_or(0) };
    if sig < 0 { -(moved as i64) } else { moved as i64 }
}

impl Round {
    /// Format of the accumulator.
    pub fn format(self) -> Format {
        if self == Round::RneF16 { Format::F16 } else { Format::F32 }
    }

    /// The one NaN: 0x7fffffff, f16 0x7fff.
    pub fn nan(self) -> u32 {
        if self == Round::RneF16 { 0x7fff } else { 0x7fff_ffff }
    }

    /// An infinity.
    pub fn infinity(self, negative: bool) -> u32 {
        match self {
            Round::RneF16 => 0x7c00 | (u32::from(negative) << 15),
            _ => 0x7f80_0000 | (u32::from(negative) << 31),
        }
    }

    /// `sum · 2^lsb`, rounded: bits.
    pub fn encode(self, sum: i64, lsb: i32) -> u32 {
        // Fraction bits, smallest exponent, width of the exponent, unused low bits of the word.
        let (frac, emin, width, unused) = match self {
            Round::RzF32 => (23, -126, 8, 0),
            Round::RzE8m13 => (13, -126, 8, 10),
            Round::RneF16 => (10, -14, 5, 0),
        };
        if sum == 0 {
            return 0;
        }
        let magnitude = sum.unsigned_abs();
        let exp = (lsb + 63 - magnitude.leading_zeros() as i32).max(emin);
        let drop = exp - frac - lsb;
        let kept = if drop <= 0 {
            magnitude << -drop
        } else {
            let cut = |by: i32| magnitude.checked_shr(by as u32).unwrap_or(0);
            let half = cut(drop - 1) & 1;
            let sticky = magnitude.trailing_zeros() < (drop - 1) as u32;
            let up = self == Round::RneF16 && half == 1 && (sticky || cut(drop) & 1 == 1);
            cut(drop) + u64::from(up)
        };
        // The hidden bit of `kept` adds one to the exponent field: 0 is a subnormal, a carry is right.
        let code = (((exp - emin) as u64) << frac) + kept;
        let infinity = ((1u64 << width) - 1) << frac;
        let sign = u32::from(sum < 0 && code != 0) << (frac + width + unused);
        sign | (code.min(infinity) << unused) as u32
    }
}
