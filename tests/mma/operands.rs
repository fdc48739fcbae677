//! Random operands that reach the corners of a step: alignment, cancellation, special values.

use vt_kernels::mma::Format;

use crate::support::strategies::Rng;

/// Shape, kind of values and seed of a matrix product.
#[derive(Clone, Debug)]
pub struct Case {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub kind: Kind,
    pub seed: u64,
}

/// What the values are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any bits, NaN and infinity among them.
    Raw,
    /// Finite, exponents within a few of each other, zeros now and then.
    Near,
    /// As `Near`, with exponents as far apart as the grid of a step is deep.
    Wide,
    /// As `Near`, and neighbours of opposite sign that cancel.
    Cancelling,
    /// Subnormals and zeros.
    Tiny,
    /// Close to overflow.
    Huge,
    /// `Near`, with one NaN or infinity in a few hundred.
    Rare,
}

impl Kind {
    pub const ALL: [Kind; 7] =
        [Kind::Raw, Kind::Near, Kind::Wide, Kind::Cancelling, Kind::Tiny, Kind::Huge, Kind::Rare];
}

/// `n` values of `format` as bits.
pub fn bits(rng: &mut Rng, format: Format, kind: Kind, n: usize) -> Vec<u32> {
    // Exponent bits, fraction bits.
    let (width, frac) = match format {
        Format::Bf16 => (8, 7),
        Format::F16 => (5, 10),
        Format::E4m3 => (4, 3),
        _ => panic!("{format:?}"),
    };
    let last = (1usize << width) - 1;
    let center = 1 + rng.below(last - 1);
    let one = |rng: &mut Rng| {
        let random = rng.bits();
        let low = (random >> 32) as u32 & ((1 << frac) - 1);
        let sign = (random as u32 & 1) << (width + frac);
        let around = |rng: &mut Rng, center: usize, by: usize| {
            (center + rng.below(2 * by + 1)).saturating_sub(by).min(last - 1) as u32
        };
        let field = match kind {
            Kind::Raw => return random as u32 >> 8 & ((1 << (width + frac + 1)) - 1),
            Kind::Near | Kind::Cancelling => around(rng, center, 2),
            Kind::Wide => around(rng, center, 14),
            Kind::Tiny => 0,
            Kind::Huge => around(rng, last - 2, 2),
            Kind::Rare if rng.below(400) == 0 => last as u32,
            Kind::Rare => around(rng, last / 2, 3),
        };
        if rng.below(8) == 0 { sign } else { sign | field << frac | low }
    };
    (0..n).map(|_| one(rng)).collect()
}

/// `n` accumulators to go with them.
pub fn accumulators(rng: &mut Rng, n: usize, kind: Kind) -> Vec<f32> {
    let one = |rng: &mut Rng| match rng.below(8) {
        0 => 0.0,
        1 => -0.0,
        2 if kind == Kind::Raw => f32::from_bits(rng.bits() as u32),
        3 if kind == Kind::Tiny => f32::from_bits(rng.bits() as u32 & 0x807f_ffff),
        4 => f32::from_bits(rng.bits() as u32 & 0xbfff_ffff),
        _ => rng.normal(1.0) * 2f32.powi(rng.below(60) as i32 - 30),
    };
    (0..n).map(|_| one(rng)).collect()
}
