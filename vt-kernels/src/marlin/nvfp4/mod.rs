//! GEMM of bf16 activations and NVFP4 weights (W4A16), dense and grouped.
//!
//! `out[m, n] = round(Σ_k a[m, k] · (b[n, k] · sb[n, k/16]) · global_scale + bias[n])`
//!
//! *Order of reduction.* That of [`gemm::bf16`](crate::gemm::bf16): slices of [`K_SLICE`](crate::gemm::K_SLICE) = 512 of
//! K, each folded from zero by m16n8k16 steps in ascending order; slice sums added in ascending order in f32, the first
//! taken as it is.
//!
//! *Shapes and layouts.* `a` `[m, k]` bf16, `b` `[n, k]` as [`Nvfp4Ref`], `bias` `[n]` f32, `out` `[m, n]`; rows of `a` and
//! `out` may be strided. `k` is a multiple of 16. Grouped: rows `offsets[e]..offsets[e + 1]` of `a` meet `b[e]`, which
//! has its own global scale.
//!
//! *Rounding.* e2m1 · ue4m3 has 6 significant bits and is exact in bf16. The f32 sum is multiplied by the global scale and
//! the bias added, each rounded to f32; one rounding to `O` on store.
//!
//! *Arms.* sm_90a, sm_121a: `mma.sync.m16n8k16` on weights decoded in registers.
//!
//! *Source.* Marlin (arXiv 2408.11743); vLLM's `marlin_gemm` for NVFP4. Unlike these, the scale is never rounded to bf16.
//!
//! ```
//! use half::bf16;
//! use vt_kernels::marlin::nvfp4::{Plan, Shape};
//! use vt_kernels::{Arch, Rows, RowsMut, format::Nvfp4};
//! let plan = Plan::new(Arch::Sm90a, Shape { n: 1, k: 16 })?;
//! // e2m1 0x2 is 1.0, ue4m3 0x38 is 1.0.
//! let b = Nvfp4::new("b", 1, 16, vec![0x22; 8], vec![0x38; 1], 0.125)?;
//! let mut out = [0.0f32];
//! plan.reference(
//!     Rows::new("a", &[bf16::ONE; 16], 1, 16)?,
//!     b.view(),
//!     None,
//!     &mut RowsMut::new("out", &mut out, 1, 1)?,
//! )?;
//! assert_eq!(out, [2.0]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

use half::bf16;

use crate::format::Nvfp4Ref;
pub use crate::gemm::Shape;
use crate::gemm::tile;
use crate::{Arch, Element, Result, Rows, RowsMut, Unsupported};

mod reference;

/// Whether `arch` has an arm for `shape`: sm_90a and sm_121a have.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    tile::supported("marlin/nvfp4", arch)
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

    /// `out [m, n] = a [m, k] · b [n, k]ᵀ + bias [n]`. On an error, which names the argument, nothing is written.
    pub fn reference<O: Element>(
        &self,
        a: Rows<bf16>,
        b: Nvfp4Ref,
        bias: Option<&[f32]>,
        out: &mut RowsMut<O>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        a.expect("a", a.rows(), k, "[m, k]")?;
        tile::expect_nvfp4("b", &b, n, k, "[n, k]")?;
        tile::check_bias(bias, n)?;
        out.expect("out", a.rows(), n, "[m, n]")?;
        reference::run(self.arch, a, b, bias, out.rows_mut())
    }

    /// Rows `offsets[e]..offsets[e + 1]` of `out` are those of `a` times `b[e]`; a group may be empty. `offsets` has one
    /// element more than `b`, starts at 0, ascends and ends at `m`. On an error nothing is written.
    pub fn reference_grouped<O: Element>(
        &self,
        a: Rows<bf16>,
        offsets: &[u32],
        b: &[Nvfp4Ref],
        out: &mut RowsMut<O>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        a.expect("a", a.rows(), k, "[m, k]")?;
        b.iter().try_for_each(|b| tile::expect_nvfp4("b", b, n, k, "[n, k]"))?;
        tile::check_offsets(offsets, b.len(), a.rows())?;
        out.expect("out", a.rows(), n, "[m, n]")?;
        tile::grouped(out, tile::sizes(offsets), |e, rows, out| {
            reference::run(self.arch, a.slice("a", rows)?, b[e], None, out)
        })
    }
}
