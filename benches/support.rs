//! Values for benches: the same in each run, of the scale that activations have.

use half::bf16;

/// `n` values in [−1, 1].
pub fn f32s(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 7919 % 2003) as f32 / 1001.0 - 1.0).collect()
}

/// [`f32s`], rounded to bf16.
pub fn bf16s(n: usize) -> Vec<bf16> {
    f32s(n).into_iter().map(bf16::from_f32).collect()
}
