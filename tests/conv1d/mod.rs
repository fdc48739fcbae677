//! Tests of `vt_kernels::conv1d`.

mod forward;
mod update;

use half::bf16;

use crate::support::padded::Padded;
use crate::support::strategies::Rng;

/// Weights `[channels, width]` and a bias.
fn weights(rng: &mut Rng, channels: usize, width: usize) -> (Padded<bf16>, Vec<bf16>) {
    (Padded::normal(rng, channels, width, 0, 0.5), rng.normals_bf16(channels, 0.5))
}
