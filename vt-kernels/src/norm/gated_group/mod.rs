//! RMSNorm over groups of a row, gated before the norm.
//!
//! `v = x · silu(gate)`; for each group of `cols / n_groups` elements
//! `out = round(v · rsqrt(Σ v² / group + eps)) · weight`, the inner rounding to the type of `x`.
//!
//! # Order of reduction
//! `Σ v²` of a group is [`lane_sum`](crate::reduce::lane_sum) over 32 lanes in vectors of 8, each element by a
//! fused multiply-add. One quotient by the group's size, one sum with `eps`, [`rsqrt`](crate::math::rsqrt).
//!
//! # Shapes and layouts
//! | argument | shape | type |
//! |---|---|---|
//! | `x`, `gate` | `[rows, cols]`, strided | f32, bf16 or f16 |
//! | `weight` | `[cols]`, or none: the norm alone | f32, bf16 or f16 |
//! | `out` | `[rows, cols]`, strided | f32, bf16 or f16 |
//!
//! # Rounding
//! In f32 but for the inner rounding above; the result is rounded once where it is stored.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! `MambaRMSNormGated` with `norm_before_gate=False` and `group_size` of mamba_ssm; Mamba2 (Dao and Gu, 2024), §7.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, norm::gated_group};
//! let plan = gated_group::Plan::new(Arch::Sm90a, gated_group::Shape { cols: 2, n_groups: 2 })?;
//! let (x, gate, mut out) = ([3.0f32, -5.0], [50.0f32, 50.0], [0.0f32; 2]);
//! let view = &mut RowsMut::new("out", &mut out, 1, 2)?;
//! plan.reference(Rows::new("x", &x, 1, 2)?, Rows::new("gate", &gate, 1, 2)?, None::<&[f32]>, view, 0.0)?;
//! assert_eq!(out, [1.0, -1.0]); // each group of one is normed by itself
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported, arch};

/// Sizes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements in a row.
    pub cols: usize,
    /// Groups in a row; divides `cols`.
    pub n_groups: usize,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("norm/gated_group", arch)
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        if shape.cols == 0 {
            return Err(Error::value("cols", 0, "at least 1"));
        }
        if shape.n_groups == 0 || !shape.cols.is_multiple_of(shape.n_groups) {
            return Err(Error::value(
                "n_groups",
                shape.n_groups,
                format!("a divisor of cols = {}", shape.cols),
            ));
        }
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Normalises on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; `eps` negative or not finite.
    pub fn reference<T: Element, W: Element, O: Element>(
        &self,
        x: Rows<'_, T>,
        gate: Rows<'_, T>,
        weight: Option<&[W]>,
        out: &mut RowsMut<'_, O>,
        eps: f32,
    ) -> Result<()> {
        let cols = self.shape.cols;
        x.expect("x", x.rows(), cols, "[rows, cols]")?;
        gate.expect("gate", x.rows(), cols, "[rows, cols]")?;
        out.expect("out", x.rows(), cols, "[rows, cols]")?;
        if let Some(weight) = weight.filter(|weight| weight.len() != cols) {
            return Err(Error::shape("weight", &[weight.len()], format!("[cols] = [{cols}]")));
        }
        if !(eps.is_finite() && eps >= 0.0) {
            return Err(Error::value("eps", eps, "a finite number, at least 0"));
        }
        reference::run(&self.shape, x, gate, weight, out, eps);
        Ok(())
    }
}
