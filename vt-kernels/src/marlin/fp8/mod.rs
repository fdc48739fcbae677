//! GEMM of bf16 activations and e4m3 weights (W8A16), dense and grouped.
//!
//! `out[m, n] = round(Σ_k a[m, k] · b[n, k] · b_scale[n] + bias[n])`
//!
//! *Order of reduction.* That of [`gemm::bf16`](crate::gemm::bf16): slices of [`K_SLICE`](crate::gemm::K_SLICE) = 512 of
//! K, each folded from zero by m16n8k16 steps in ascending order; slice sums added in ascending order in f32, the first
//! taken as it is.
//!
//! *Shapes and layouts.* `a` `[m, k]` bf16, `b` `[n, k]` [`E4m3`], `bias` `[n]` f32, `out` `[m, n]`; rows may be strided. `k`
//! is a multiple of 16. The scale is one f32, or one per row of `b`. Grouped: rows `offsets[e]..offsets[e + 1]` of `a`
//! meet `b[e]` and `b_scales[e]`.
//!
//! *Rounding.* e4m3 is exact in bf16. The f32 sum is multiplied by the scale and the bias added, each rounded to f32; one
//! rounding to `O` on store.
//!
//! *Arms.* sm_90a, sm_121a: `mma.sync.m16n8k16` on weights decoded in registers.
//!
//! *Source.* vLLM's `fp8_marlin_gemm`.
//!
//! ```
//! use half::bf16;
//! use vt_kernels::gemm::fp8::Scale;
//! use vt_kernels::marlin::fp8::{Plan, Shape};
//! use vt_kernels::{Arch, Rows, RowsMut, format::E4m3};
//! let plan = Plan::new(Arch::Sm121a, Shape { n: 1, k: 16 })?;
//! let mut out = [0.0f32];
//! plan.reference(
//!     Rows::new("a", &[bf16::ONE; 16], 1, 16)?,
//!     Rows::new("b", &[E4m3::from_f32(1.5); 16], 1, 16)?,
//!     Scale::PerTensor(0.5),
//!     Some(&[-2.0]),
//!     &mut RowsMut::new("out", &mut out, 1, 1)?,
//! )?;
//! assert_eq!(out, [10.0]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

use half::bf16;

use crate::format::E4m3;
pub use crate::gemm::Shape;
use crate::gemm::fp8::Scale;
use crate::gemm::tile;
use crate::{Arch, Element, Result, Rows, RowsMut, Unsupported};

mod reference;

/// Whether `arch` has an arm for `shape`: sm_90a and sm_121a have.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    tile::supported("marlin/fp8", arch)
}

/// A checked shape on an architecture.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    arch: Arch,
    shape: Shape,
}

impl Plan {
    /// Checks `shape` (`n` at least 1, `k` a positive multiple of 16) and that `arch` has an arm for it.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        tile::check_shape(&shape, 16)?;
        supported(arch, &shape)?;
        Ok(Plan { arch, shape })
    }

    /// The shape it was made for.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// `out [m, n] = a [m, k] · b [n, k]ᵀ` times `b_scale`, plus `bias [n]`. On an error, which names the argument,
    /// nothing is written.
    pub fn reference<O: Element>(
        &self,
        a: Rows<bf16>,
        b: Rows<E4m3>,
        b_scale: Scale,
        bias: Option<&[f32]>,
        out: &mut RowsMut<O>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        a.expect("a", a.rows(), k, "[m, k]")?;
        b.expect("b", n, k, "[n, k]")?;
        b_scale.check("b_scale", n)?;
        tile::check_bias(bias, n)?;
        out.expect("out", a.rows(), n, "[m, n]")?;
        reference::run(self.arch, a, b, b_scale, bias, out.rows_mut())
    }

    /// Rows `offsets[e]..offsets[e + 1]` of `out` are those of `a` times `b[e]` and `b_scales[e]`; a group may be empty.
    /// `offsets` has one element more than `b`, starts at 0, ascends and ends at `m`. On an error nothing is written.
    pub fn reference_grouped<O: Element>(
        &self,
        a: Rows<bf16>,
        offsets: &[u32],
        b: &[Rows<E4m3>],
        b_scales: &[f32],
        out: &mut RowsMut<O>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        a.expect("a", a.rows(), k, "[m, k]")?;
        b.iter().try_for_each(|b| b.expect("b", n, k, "[n, k]"))?;
        tile::check_groups("b_scales", b_scales, b.len())?;
        tile::check_offsets(offsets, b.len(), a.rows())?;
        out.expect("out", a.rows(), n, "[m, n]")?;
        tile::grouped(out, tile::sizes(offsets), |e, rows, out| {
            let b_scale = Scale::PerTensor(b_scales[e]);
            reference::run(self.arch, a.slice("a", rows)?, b[e], b_scale, None, out)
        })
    }
}
