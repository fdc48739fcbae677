//! GEMM in f32: the router of a mixture of experts, whose logits decide which weights are read at all.
//!
//! `out[m, n] = Σ_k a[m, k] · b[n, k] + bias[n]`
//!
//! *Order of reduction.* [`lane_sum`](crate::reduce::lane_sum) with vectors of 4 and the 32 lanes of one warp: element
//! `k` belongs to lane `(k / 4) % 32`; a lane folds its elements by fused multiply-add in ascending order from +0; the
//! lanes join in a butterfly.
//!
//! *Shapes and layouts.* `a` `[m, k]` of f32, bf16 or f16, `b` `[n, k]`, `bias` `[n]`, `out` `[m, n]`; rows may be
//! strided; any `k ≥ 1`.
//!
//! *Rounding.* `a` is widened exactly; every operation is IEEE f32; a NaN is stored as 0x7fffffff.
//!
//! *Arms.* sm_90a, sm_121a: SIMT, a warp per output.
//!
//! *Source.* Nemotron-H's router keeps its weight and product in f32 (`force_fp32_compute` in vLLM).
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, gemm};
//! let plan = gemm::f32::Plan::new(Arch::Sm121a, gemm::f32::Shape { n: 2, k: 2 })?;
//! let mut out = [0.0; 2];
//! plan.reference(
//!     Rows::new("a", &[2.0f32, 3.0], 1, 2)?,
//!     Rows::new("b", &[1.0, 1.0, 1.0, -1.0], 2, 2)?,
//!     None,
//!     &mut RowsMut::new("out", &mut out, 1, 2)?,
//! )?;
//! assert_eq!(out, [5.0, -1.0]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

pub use super::Shape;
use super::tile;
use crate::{Arch, Element, Result, Rows, RowsMut, Unsupported};

mod reference;

/// Whether `arch` has an arm for `shape`: sm_90a and sm_121a have.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    tile::supported("gemm/f32", arch)
}

/// A checked shape on an architecture.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks `shape` (`n` and `k` at least 1) and that `arch` has an arm for it; the bits are those of either arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        tile::check_shape(&shape, 1)?;
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape it was made for.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// `out [m, n] = a [m, k] · b [n, k]ᵀ + bias [n]`. On an error, which names the argument, nothing is written.
    pub fn reference<T: Element>(
        &self,
        a: Rows<T>,
        b: Rows<f32>,
        bias: Option<&[f32]>,
        out: &mut RowsMut<f32>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        a.expect("a", a.rows(), k, "[m, k]")?;
        b.expect("b", n, k, "[n, k]")?;
        tile::check_bias(bias, n)?;
        out.expect("out", a.rows(), n, "[m, n]")?;
        reference::run(a, b, bias, out.rows_mut())
    }
}
