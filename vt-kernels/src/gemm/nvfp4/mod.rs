//! GEMM of NVFP4 activations and NVFP4 weights (W4A4), dense and grouped.
//!
//! `out[m, n] = round(Σ_k a[m, k] · sa[m, k/16] · b[n, k] · sb[n, k/16] · alpha + bias[n])`, `alpha` = the product of the
//! two global scales.
//!
//! *Order of reduction.* One fold of block-scaled m16n8k64 steps over all of K, in ascending order.
//!
//! *Shapes and layouts.* `a` `[m, k]`, `b` `[n, k]` as [`Nvfp4Ref`] (e2m1 codes two to a byte, low nibble first; a ue4m3
//! scale for each 16; one f32 global scale), `bias` `[n]` f32, `out` `[m, n]`. `k` is a multiple of 32; the tail of the
//! last step counts as zero codes with zero scales. Grouped: `a[e]` meets `b[e]`, and the rows of `out` run through the
//! groups in order; every group has its own global scales.
//!
//! *Rounding.* The MMA's four groups of 16 are exact, their sum with the accumulator keeps 35 fraction bits below the
//! largest exponent and truncates to f32. Then, each rounded to f32: `alpha`, `sum · alpha`, `+ bias`; one rounding to
//! `O` on store.
//!
//! *Arms.* sm_121a: `mma.sync.m16n8k64` `kind::mxf4nvf4.block_scale.scale_vec::4X`. sm_90a has no FP4 MMA: `Unsupported`.
//!
//! *Source.* CUTLASS block-scaled GEMM of ModelOpt's NVFP4 checkpoints; the width 35 from MMA-Sim (arXiv 2511.10909).
//!
//! ```
//! use vt_kernels::gemm::nvfp4::{Plan, Shape};
//! use vt_kernels::{Arch, RowsMut, format::Nvfp4};
//! let plan = Plan::new(Arch::Sm121a, Shape { n: 1, k: 32 })?;
//! // e2m1 0x2 is 1.0, ue4m3 0x38 is 1.0.
//! let a = Nvfp4::new("a", 1, 32, vec![0x22; 16], vec![0x38; 2], 0.5)?;
//! let b = Nvfp4::new("b", 1, 32, vec![0x22; 16], vec![0x38; 2], 4.0)?;
//! let mut out = [0.0f32];
//! plan.reference(a.view(), b.view(), Some(&[1.0]), &mut RowsMut::new("out", &mut out, 1, 1)?)?;
//! assert_eq!(out, [65.0]);
//! assert!(Plan::new(Arch::Sm90a, Shape { n: 1, k: 32 }).is_err());
//! # Ok::<(), vt_kernels::Error>(())
//! ```

pub use super::Shape;
use super::tile;
use crate::format::Nvfp4Ref;
use crate::{Arch, Element, Error, Result, RowsMut, Unsupported};

mod reference;

/// Whether `arch` has an arm for `shape`: only sm_121a has.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    match arch {
        Arch::Sm121a => Ok(()),
        Arch::Sm80 | Arch::Sm89 | Arch::Sm90a => {
            Err(Unsupported { kernel: "gemm/nvfp4", arch, reason: "the chip has no FP4 MMA".into() })
        }
    }
}

/// A checked shape on an architecture.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    arch: Arch,
    shape: Shape,
}

impl Plan {
    /// Checks `shape` (`n` at least 1, `k` a positive multiple of 32) and that `arch` has an arm for it.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        tile::check_shape(&shape, 32)?;
        supported(arch, &shape)?;
        Ok(Plan { arch, shape })
    }

    /// The shape it was made for.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// `out [m, n] = a [m, k] · b [n, k]ᵀ` times both global scales, plus `bias [n]`. On an error, which names the
    /// argument, nothing is written.
    pub fn reference<O: Element>(
        &self,
        a: Nvfp4Ref,
        b: Nvfp4Ref,
        bias: Option<&[f32]>,
        out: &mut RowsMut<O>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        tile::expect_nvfp4("a", &a, a.rows(), k, "[m, k]")?;
        tile::expect_nvfp4("b", &b, n, k, "[n, k]")?;
        tile::check_bias(bias, n)?;
        out.expect("out", a.rows(), n, "[m, n]")?;
        reference::run(self.arch, a, b, bias, out.rows_mut())
    }

    /// The rows of `out` are those of `a[0]` times `b[0]`, then those of `a[1]` times `b[1]`, …; a group may be empty.
    /// On an error nothing is written.
    pub fn reference_grouped<O: Element>(
        &self,
        a: &[Nvfp4Ref],
        b: &[Nvfp4Ref],
        out: &mut RowsMut<O>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        a.iter().try_for_each(|a| tile::expect_nvfp4("a", a, a.rows(), k, "[m, k]"))?;
        b.iter().try_for_each(|b| tile::expect_nvfp4("b", b, n, k, "[n, k]"))?;
        tile::check_groups("a", a, b.len())?;
        let rows = a.iter().try_fold(0usize, |sum, a| sum.checked_add(a.rows()));
        let rows = rows.ok_or_else(|| Error::value("a", "more rows than usize holds", "fewer"))?;
        out.expect("out", rows, n, "[m, n]")?;
        tile::grouped(out, a.iter().map(|a| a.rows()), |e, _, out| {
            reference::run(self.arch, a[e], b[e], None, out)
        })
    }
}
