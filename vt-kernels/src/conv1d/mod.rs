//! Causal depthwise convolution along a sequence, as Mamba applies it before the scan.
//!
//! `out[t, c] = act(bias[c] + Σ_j weight[c, j] · x[t − (width − 1) + j, c])`, `act` SiLU or nothing. Inputs
//! before the sequence come from its state, which holds the last `width − 1` raw inputs, oldest first.
//!
//! Order: a fused multiply-add for each tap from the oldest to the current token, beginning with the bias (or
//! +0), in f32; one rounding where the result is stored. A token's bits depend on its window alone.

pub mod forward;
pub mod update;

mod window;

use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported, checks};

/// Sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Channels, each with its own taps.
    pub channels: usize,
    /// Taps, 1 to 32.
    pub width: usize,
    /// Whether SiLU follows.
    pub silu: bool,
}

impl Shape {
    fn check(&self) -> Result<()> {
        let Shape { channels, width, .. } = *self;
        if channels == 0 || channels.checked_mul(32).is_none() {
            return Err(Error::value("channels", channels, "at least 1, of a size that fits memory"));
        }
        if width == 0 || width > 32 {
            return Err(Error::value("width", width, "1 to 32"));
        }
        Ok(())
    }
}

fn supported(kernel: &'static str, arch: Arch) -> Result<(), Unsupported> {
    crate::arch::simt(kernel, arch)
}

/// What both kernels check of weights and states.
fn check_weights<W: Element, S: Element>(
    channels: usize,
    width: usize,
    weight: &Rows<'_, W>,
    bias: Option<&[W]>,
    state: &RowsMut<'_, S>,
    slots: &[i32],
) -> Result<()> {
    weight.expect("weight", channels, width, "[channels, width]")?;
    if let Some(bias) = bias {
        checks::per("bias", bias, channels, "channels")?;
    }
    state.expect("state", state.rows(), channels * (width - 1), "[n_slots, channels * (width - 1)]")?;
    checks::slots(slots, state.rows())
}
