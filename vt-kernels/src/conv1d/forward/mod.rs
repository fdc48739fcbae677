//! Causal conv of whole sequences or pieces of them, packed one after the other.
//!
//! Formula and order of reduction: [`conv1d`](super). The state is read, then replaced by the last `width − 1`
//! raw inputs.
//! A piece shorter than `width − 1` shifts the state. Pieces of a sequence give the bits of the whole.
//!
//! # Shapes and layouts
//! [`Inputs`]; `state`: `[n_slots, channels · (width − 1)]`, strided, a channel's inputs together, oldest first;
//! `out`: `[total_tokens, channels]`, strided. A slot is named at most once.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! causal_conv1d; Mamba (Gu and Dao, 2023), figure 3.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, conv1d};
//! let shape = conv1d::forward::Shape { channels: 1, width: 2, silu: false };
//! let plan = conv1d::forward::Plan::new(Arch::Sm90a, shape)?;
//! let x = [1.0f32, 2.0, 3.0];
//! let (mut state, mut out) = ([7.0f32], [0.0f32; 3]);
//! let inputs = conv1d::forward::Inputs {
//!     x: Rows::new("x", &x, 3, 1)?,
//!     weight: Rows::new("weight", &[10.0f32, 1.0], 1, 2)?,
//!     bias: None,
//!     cu_seqlens: &[0, 3],
//!     slots: &[0],
//!     has_initial: &[true],
//! };
//! let state_view = &mut RowsMut::new("state", &mut state, 1, 1)?;
//! plan.reference(&inputs, state_view, &mut RowsMut::new("out", &mut out, 3, 1)?)?;
//! assert_eq!((out, state), ([71.0, 12.0, 23.0], [3.0]));
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

pub use super::Shape;

use crate::{Arch, Element, Result, Rows, RowsMut, Unsupported, checks};

/// What is read.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, T, W> {
    /// Inputs `[total_tokens, channels]`, strided.
    pub x: Rows<'a, T>,
    /// Taps `[channels, width]`, the current token last.
    pub weight: Rows<'a, W>,
    /// `[channels]`.
    pub bias: Option<&'a [W]>,
    /// Where each sequence begins, and the end, `[n_seqs + 1]`.
    pub cu_seqlens: &'a [u32],
    /// State row of each sequence, `[n_seqs]`; −1: begins with zeros and keeps nothing.
    pub slots: &'a [i32],
    /// Whether the state row holds the inputs before this piece, `[n_seqs]`; else they are zeros.
    pub has_initial: &'a [bool],
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    super::supported("conv1d/forward", arch)
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        shape.check()?;
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Convolves on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; a slot out of range or named twice. Nothing is written then.
    pub fn reference<T: Element, W: Element, S: Element>(
        &self,
        inputs: &Inputs<'_, T, W>,
        state: &mut RowsMut<'_, S>,
        out: &mut RowsMut<'_, T>,
    ) -> Result<()> {
        let Shape { channels, width, .. } = self.shape;
        inputs.x.expect("x", inputs.x.rows(), channels, "[total_tokens, channels]")?;
        out.expect("out", inputs.x.rows(), channels, "[total_tokens, channels]")?;
        let n_seqs = checks::cu_seqlens(inputs.cu_seqlens, inputs.x.rows())?;
        checks::per("slots", inputs.slots, n_seqs, "n_seqs")?;
        checks::per("has_initial", inputs.has_initial, n_seqs, "n_seqs")?;
        super::check_weights(channels, width, &inputs.weight, inputs.bias, state, inputs.slots)?;
        reference::run(&self.shape, inputs, state, out);
        Ok(())
    }
}
