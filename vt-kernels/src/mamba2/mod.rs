//! The selective state space of Mamba2: the scan over a sequence in chunks, and its single step.

use crate::{Error, Result};

pub mod chunk_scan;
pub mod state_update;

/// Sizes that both kernels check.
fn check_shape(n_heads: usize, head_dim: usize, n_groups: usize, d_state: usize) -> Result<()> {
    for (arg, got) in [("n_heads", n_heads), ("head_dim", head_dim), ("d_state", d_state)] {
        if got == 0 {
            return Err(Error::value(arg, got, "at least 1"));
        }
    }
    if n_groups == 0 || !n_heads.is_multiple_of(n_groups) {
        return Err(Error::value("n_groups", n_groups, format!("a divisor of n_heads = {n_heads}")));
    }
    let sizes = [n_heads, head_dim, d_state].iter().try_fold(1usize, |product, &n| product.checked_mul(n));
    sizes.map(|_| ()).ok_or_else(|| Error::value("n_heads", n_heads, "a size that fits memory"))
}

fn check_dt_limit(dt_limit: (f32, f32)) -> Result<()> {
    if dt_limit.0 <= dt_limit.1 {
        return Ok(());
    }
    Err(Error::value("dt_limit", format!("{dt_limit:?}"), "a lower and an upper bound"))
}

/// Step size of one head: `clamp(softplus(dt + bias))`, each step optional.
#[inline(always)]
fn step_size(dt: f32, bias: Option<f32>, softplus: bool, limit: (f32, f32)) -> f32 {
    let dt = bias.map_or(dt, |bias| dt + bias);
    let dt = if softplus { crate::math::softplus(dt) } else { dt };
    dt.clamp(limit.0, limit.1)
}
