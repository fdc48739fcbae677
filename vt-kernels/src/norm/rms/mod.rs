//! RMSNorm of rows, after adding them to a residual stream if there is one.
//!
//! `out = (x · rsqrt(Σ x² / cols + eps)) · weight`; with a residual, `residual = round(residual + x)` first, and
//! the norm is that of the rounded sum.
//!
//! # Order of reduction
//! `Σ x²` is [`lane_sum`](crate::reduce::lane_sum) over 256 lanes in vectors of 8, each element by a fused
//! multiply-add. One quotient by `cols`, one sum with `eps`, [`rsqrt`](crate::math::rsqrt), two products.
//!
//! # Shapes and layouts
//! | argument | shape | type |
//! |---|---|---|
//! | `x` | `[rows, cols]`, strided | f32, bf16 or f16 |
//! | `weight` | `[cols]` | f32, bf16 or f16 |
//! | `residual` | `[rows, cols]`, strided, in and out | f32, bf16 or f16 |
//! | `out` | `[rows, cols]`, strided | f32, bf16 or f16 |
//!
//! # Rounding
//! All in f32; the residual sum and the result are rounded once, to nearest even, where they are stored.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! Zhang and Sennrich, Root Mean Square Layer Normalization (2019), eq. 4.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, norm::rms};
//! let plan = rms::Plan::new(Arch::Sm90a, rms::Shape { cols: 2 })?;
//! let (x, mut out) = ([3.0f32, -4.0], [0.0f32; 2]);
//! // mean of squares 12.5, plus 3.5: the root is 4
//! plan.reference(
//!     Rows::new("x", &x, 1, 2)?,
//!     &[1.0f32, 2.0],
//!     None::<&mut RowsMut<'_, f32>>,
//!     &mut RowsMut::new("out", &mut out, 1, 2)?,
//!     3.5,
//! )?;
//! assert_eq!(out, [0.75, -2.0]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported, arch};

/// Size of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements in a row, at least one.
    pub cols: usize,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("norm/rms", arch)
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
    pub fn reference<T: Element, W: Element, R: Element, O: Element>(
        &self,
        x: Rows<'_, T>,
        weight: &[W],
        residual: Option<&mut RowsMut<'_, R>>,
        out: &mut RowsMut<'_, O>,
        eps: f32,
    ) -> Result<()> {
        let cols = self.shape.cols;
        x.expect("x", x.rows(), cols, "[rows, cols]")?;
        out.expect("out", x.rows(), cols, "[rows, cols]")?;
        if weight.len() != cols {
            return Err(Error::shape("weight", &[weight.len()], format!("[cols] = [{cols}]")));
        }
        if let Some(residual) = &residual {
            residual.expect("residual", x.rows(), cols, "[rows, cols]")?;
        }
        if !(eps.is_finite() && eps >= 0.0) {
            return Err(Error::value("eps", eps, "a finite number, at least 0"));
        }
        reference::run(x, weight, residual, out, eps);
        Ok(())
    }
}
