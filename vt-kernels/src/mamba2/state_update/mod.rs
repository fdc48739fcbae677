//! One step of the recurrence for each of a batch of sequences, states in place.
//!
//! For each head `h` of group `g = h / (n_heads / n_groups)`, element `p` and state `n`:
//!
//! ```text
//! Δ  = clamp(softplus(dt + dt_bias))
//! s  = fma(s, exp(Δ · A), (Δ · x) · B[n])
//! y  = Σ_n s · C[n];   y = fma(D, x, y);   y = y · silu(z)
//! ```
//!
//! `y` reads the state before it is rounded to its stored type.
//!
//! # Order of reduction
//! `Σ_n` is [`lane_sum`](crate::reduce::lane_sum) over 32 lanes in vectors of 4, a fused multiply-add each.
//!
//! # Shapes and layouts
//! [`Inputs`]; `state`: `[n_slots, n_heads · head_dim · d_state]`, strided, f32 or bf16; `out`:
//! `[batch, n_heads · head_dim]`, strided. A slot of −1 leaves every state alone and writes zeros to its
//! row of `out`; a slot is named at most once.
//!
//! # Rounding
//! All in f32; state and result are rounded once where they are stored.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! `selective_state_update` of mamba_ssm; Mamba2 (Dao and Gu, 2024), eq. 1.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, mamba2::state_update};
//! let shape = state_update::Shape {
//!     n_heads: 1, head_dim: 1, n_groups: 1, d_state: 1, dt_softplus: false, dt_limit: (0.0, f32::INFINITY),
//! };
//! let plan = state_update::Plan::new(Arch::Sm90a, shape)?;
//! let (mut state, mut out) = ([5.0f32], [0.0f32]);
//! let inputs = state_update::Inputs {
//!     x: Rows::new("x", &[3.0f32], 1, 1)?,
//!     dt: Rows::new("dt", &[2.0f32], 1, 1)?,
//!     A: &[0.0],
//!     B: Rows::new("B", &[10.0f32], 1, 1)?,
//!     C: Rows::new("C", &[2.0f32], 1, 1)?,
//!     D: Some(&[1.0]),
//!     z: None,
//!     dt_bias: None,
//!     slots: &[0],
//! };
//! let state_view = &mut RowsMut::new("state", &mut state, 1, 1)?;
//! plan.reference(&inputs, state_view, &mut RowsMut::new("out", &mut out, 1, 1)?)?;
//! assert_eq!((state, out), ([65.0], [133.0])); // 5 · e^0 + 2 · 3 · 10, then 65 · 2 + 3
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use super::{Sizes, Tokens};
use crate::{Arch, Element, Result, Rows, RowsMut, Unsupported, arch, checks};

/// Sizes and the rule for `dt`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Heads.
    pub n_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Groups of heads that share `B` and `C`; divides `n_heads`.
    pub n_groups: usize,
    /// Size of the state.
    pub d_state: usize,
    /// Whether softplus is applied to `dt`.
    pub dt_softplus: bool,
    /// Bounds of `dt` after softplus; (0, ∞) does nothing.
    pub dt_limit: (f32, f32),
}

impl Shape {
    fn sizes(&self) -> Sizes {
        let Shape { n_heads, head_dim, n_groups, d_state, .. } = *self;
        Sizes { n_heads, head_dim, n_groups, d_state }
    }
}

/// What is read.
#[allow(non_snake_case)]
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, T> {
    /// `[batch, n_heads · head_dim]`, strided.
    pub x: Rows<'a, T>,
    /// `[batch, n_heads]`, strided.
    pub dt: Rows<'a, T>,
    /// `[n_heads]`, negative.
    pub A: &'a [f32],
    /// `[batch, n_groups · d_state]`, strided.
    pub B: Rows<'a, T>,
    /// As `B`.
    pub C: Rows<'a, T>,
    /// `[n_heads]`: the skip.
    pub D: Option<&'a [f32]>,
    /// Gate, `[batch, n_heads · head_dim]`, strided.
    pub z: Option<Rows<'a, T>>,
    /// `[n_heads]`.
    pub dt_bias: Option<&'a [f32]>,
    /// State row of each sequence, `[batch]`; −1 for none.
    pub slots: &'a [i32],
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("mamba2/state_update", arch)
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        super::check_shape(shape.sizes())?;
        super::check_dt_limit(shape.dt_limit)?;
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Steps on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; a slot out of range or named twice. Nothing is written then.
    #[allow(non_snake_case)]
    pub fn reference<T: Element, S: Element, O: Element>(
        &self,
        inputs: &Inputs<'_, T>,
        state: &mut RowsMut<'_, S>,
        out: &mut RowsMut<'_, O>,
    ) -> Result<()> {
        let Shape { n_heads, head_dim, d_state, .. } = self.shape;
        let (batch, inner) = (inputs.x.rows(), n_heads * head_dim);
        let Inputs { x, dt, A, B, C, D, z, dt_bias, .. } = *inputs;
        Tokens { x, dt, A, B, C, D, z, dt_bias }.check(self.shape.sizes(), "batch")?;
        checks::per("slots", inputs.slots, batch, "batch")?;
        state.expect("state", state.rows(), inner * d_state, "[n_slots, n_heads * head_dim * d_state]")?;
        out.expect("out", batch, inner, "[batch, n_heads * head_dim]")?;
        checks::slots(inputs.slots, state.rows())?;
        reference::run(&self.shape, inputs, state, out);
        Ok(())
    }
}
