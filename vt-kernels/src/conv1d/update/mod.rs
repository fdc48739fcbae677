//! Causal conv of one token of each sequence.
//!
//! Formula and order of reduction: [`conv1d`](super). The state is read, then replaced by the last `width − 1`
//! raw inputs.
//! The bits are those of [`forward`](super::forward) over the same tokens.
//!
//! # Shapes and layouts
//! [`Inputs`]; `state`: `[n_slots, channels · (width − 1)]`, strided, a channel's inputs together, oldest first;
//! `out`: `[batch, channels]`, strided. A slot is named at most once.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! causal_conv1d; Mamba (Gu and Dao, 2023), figure 3.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, conv1d};
//! let shape = conv1d::update::Shape { channels: 1, width: 2, silu: false };
//! let plan = conv1d::update::Plan::new(Arch::Sm90a, shape)?;
//! let (mut state, mut out) = ([7.0f32], [0.0f32]);
//! let inputs = conv1d::update::Inputs {
//!     x: Rows::new("x", &[1.0f32], 1, 1)?,
//!     weight: Rows::new("weight", &[10.0f32, 1.0], 1, 2)?,
//!     bias: None,
//!     slots: &[0],
//! };
//! let state_view = &mut RowsMut::new("state", &mut state, 1, 1)?;
//! plan.reference(&inputs, state_view, &mut RowsMut::new("out", &mut out, 1, 1)?)?;
//! assert_eq!((out, state), ([71.0], [1.0]));
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

pub use super::Shape;

use crate::{Arch, Element, Result, Rows, RowsMut, Unsupported, checks};

/// What is read.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, T, W> {
    /// Inputs `[batch, channels]`, strided.
    pub x: Rows<'a, T>,
    /// Taps `[channels, width]`, the current token last.
    pub weight: Rows<'a, W>,
    /// `[channels]`.
    pub bias: Option<&'a [W]>,
    /// State row of each token, `[batch]`; −1: no state is touched and the output row is zeros.
    pub slots: &'a [i32],
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    super::supported("conv1d/update", arch)
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
        inputs.x.expect("x", inputs.x.rows(), channels, "[batch, channels]")?;
        out.expect("out", inputs.x.rows(), channels, "[batch, channels]")?;
        checks::per("slots", inputs.slots, inputs.x.rows(), "batch")?;
        super::check_weights(channels, width, &inputs.weight, inputs.bias, state, inputs.slots)?;
        reference::run(&self.shape, inputs, state, out);
        Ok(())
    }
}
