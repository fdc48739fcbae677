//! Sums each token's experts, weighted and scaled, and adds the shared expert.
//!
//! `out[t] = routed_scaling_factor · Σ_j weights[t, j] · expert_out[position[t · top_k + j]] + shared[t]`
//!
//! # Order of reduction
//! From +0 a fused multiply-add for each `j` ascending, then one product with the factor, then one sum with the
//! shared row if there is one. In f32, rounded once where it is stored.
//!
//! # Shapes and layouts
//! | argument | shape | type |
//! |---|---|---|
//! | `expert_out` | `[total_tokens · top_k, cols]` in the order of experts, strided | f32, bf16 or f16 |
//! | `position` | `[total_tokens · top_k]`, from [`permute`](super::permute) | u32 |
//! | `weights` | `[total_tokens, top_k]`, strided | f32 |
//! | `shared` | `[total_tokens, cols]`, strided, or none | as `expert_out` |
//! | `out` | `[total_tokens, cols]`, strided | f32, bf16 or f16 |
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, moe::combine};
//! let plan = combine::Plan::new(Arch::Sm90a, combine::Shape { cols: 1, top_k: 2 })?;
//! let mut out = [0.0f32];
//! plan.reference(
//!     Rows::new("expert_out", &[10.0f32, 20.0], 2, 1)?,
//!     &[1, 0],
//!     Rows::new("weights", &[0.5, 0.25], 1, 2)?,
//!     Some(Rows::new("shared", &[1.0], 1, 1)?),
//!     &mut RowsMut::new("out", &mut out, 1, 1)?,
//!     2.0,
//! )?;
//! assert_eq!(out, [26.0]); // 2 · (0.5 · 20 + 0.25 · 10) + 1
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported, arch, checks};

/// Sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements in a row.
    pub cols: usize,
    /// Experts of a token.
    pub top_k: usize,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("moe/combine", arch)
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        if shape.top_k == 0 {
            return Err(Error::value("top_k", 0, "at least 1"));
        }
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Combines on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; a position that is not there.
    pub fn reference<T: Element, O: Element>(
        &self,
        expert_out: Rows<'_, T>,
        position: &[u32],
        weights: Rows<'_, f32>,
        shared: Option<Rows<'_, T>>,
        out: &mut RowsMut<'_, O>,
        routed_scaling_factor: f32,
    ) -> Result<()> {
        let Shape { cols, top_k } = self.shape;
        let rows = weights.rows();
        weights.expect("weights", rows, top_k, "[total_tokens, top_k]")?;
        let slots = rows * top_k;
        expert_out.expect("expert_out", slots, cols, "[total_tokens * top_k, cols]")?;
        checks::per("position", position, slots, "total_tokens * top_k")?;
        if let Some(shared) = &shared {
            shared.expect("shared", rows, cols, "[total_tokens, cols]")?;
        }
        out.expect("out", rows, cols, "[total_tokens, cols]")?;
        if let Some(at) = position.iter().position(|&row| row as usize >= slots) {
            let got = format!("{} at {at}", position[at]);
            return Err(Error::value("position", got, format!("below {slots}")));
        }
        reference::run(top_k, expert_out, position, weights, shared, out, routed_scaling_factor);
        Ok(())
    }
}
