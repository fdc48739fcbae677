//! Random values: realistic ones, and every kind of extreme.

use half::bf16;
use proptest::prelude::*;

/// f32 of the scale that activations have, in [-4, 4], with exact zeros now and then.
pub fn activation() -> impl Strategy<Value = f32> {
    prop_oneof![20 => -4.0f32..4.0, 1 => Just(0.0f32), 1 => Just(-0.0f32)]
}

/// Any f32 at all: uniform over bit patterns, with the special values over-represented.
pub fn any_f32() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => any::<u32>().prop_map(f32::from_bits),
        2 => prop::sample::select(vec![
            0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN,
            f32::MIN_POSITIVE, f32::from_bits(1), -f32::from_bits(1), 448.0, 464.0, 6.0,
        ]),
        2 => -4.0f32..4.0,
    ]
}

/// Any finite f32, over all exponents.
pub fn finite_f32() -> impl Strategy<Value = f32> {
    any_f32().prop_filter("finite", |x| x.is_finite())
}

/// bf16 of the scale that activations have.
pub fn activation_bf16() -> impl Strategy<Value = bf16> {
    activation().prop_map(bf16::from_f32)
}

/// Any bf16 bit pattern.
pub fn any_bf16() -> impl Strategy<Value = bf16> {
    any::<u16>().prop_map(bf16::from_bits)
}

/// A small deterministic generator for large buffers, where a strategy would be slow (xorshift64*).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator; equal seeds give equal streams.
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Roughly normal, mean 0, deviation `scale`.
    pub fn normal(&mut self, scale: f32) -> f32 {
        let sum: f32 = (0..4).map(|_| (self.bits() >> 40) as f32 / (1u64 << 24) as f32 - 0.5).sum();
        sum * 1.732 * scale
    }

    /// `n` values of [`Rng::normal`].
    pub fn normals(&mut self, n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|_| self.normal(scale)).collect()
    }

    /// `n` values of [`Rng::normal`], rounded to bf16.
    pub fn normals_bf16(&mut self, n: usize, scale: f32) -> Vec<bf16> {
        (0..n).map(|_| bf16::from_f32(self.normal(scale))).collect()
    }
}
