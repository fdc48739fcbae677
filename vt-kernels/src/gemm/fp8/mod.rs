//! GEMM of e4m3 activations and e4m3 weights (W8A8), dense and grouped.
//!
//! `out[m, n] = round(Σ_k a[m, k] · b[n, k] · (a_scale[m] · b_scale[n]) + bias[n])`
//!
//! *Order of reduction.* sm_90a: slices of [`PROMOTE`](super::PROMOTE) = 128 of K, each folded from zero by wgmma
//! m64nNk32 steps in ascending order; slice sums are added in ascending order in f32, the first taken as it is.
//! sm_121a: one fold of m16n8k32 steps over all of K.
//!
//! *Shapes and layouts.* `a` `[m, k]`, `b` `[n, k]`, both [`E4m3`]; `bias` `[n]` f32; `out` `[m, n]`; rows may be strided.
//! `k` is a multiple of 16; half a step at the end counts as zeros. A [`Scale`] is one f32, or one per row of its operand.
//!
//! *Rounding.* sm_90a: the MMA keeps 13 fraction bits below the largest exponent and truncates its sum to 13, hence the
//! promotion. sm_121a: it keeps 25 and truncates to f32. Then, each rounded to f32: `s = a_scale · b_scale`, `sum · s`,
//! `+ bias`; one rounding to `O` on store.
//!
//! *Arms.* sm_121a: `mma.sync.m16n8k32` `kind::f8f6f4`. sm_90a: `wgmma.m64nNk32`.
//!
//! *Source.* CUTLASS scaled GEMM with two-level accumulation; DeepSeek-V3 (arXiv 2412.19437) section 3.3.2 on promotion.
//!
//! ```
//! use vt_kernels::gemm::fp8::{Plan, Scale, Shape};
//! use vt_kernels::{Arch, Rows, RowsMut, format::E4m3};
//! let plan = Plan::new(Arch::Sm90a, Shape { n: 1, k: 16 })?;
//! let (a, b) = ([E4m3::from_f32(2.0); 16], [E4m3::from_f32(0.5); 16]);
//! let mut out = [0.0f32];
//! plan.reference(
//!     Rows::new("a", &a, 1, 16)?,
//!     Scale::PerTensor(0.25),
//!     Rows::new("b", &b, 1, 16)?,
//!     Scale::PerRow(&[2.0]),
//!     None,
//!     &mut RowsMut::new("out", &mut out, 1, 1)?,
//! )?;
//! assert_eq!(out, [8.0]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

pub use super::Shape;
use super::tile;
use crate::format::E4m3;
use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported};

mod reference;

/// What an operand's codes are multiplied by.
#[derive(Clone, Copy, Debug)]
pub enum Scale<'a> {
    /// One factor for all rows.
    PerTensor(f32),
    /// A factor for each row: each token of activations, each output channel of weights.
    PerRow(&'a [f32]),
}

impl Scale<'_> {
    pub(crate) fn check(&self, arg: &'static str, rows: usize) -> Result<()> {
        match self {
            Scale::PerRow(s) if s.len() != rows => {
                Err(Error::shape(arg, &[s.len()], format!("[rows] = [{rows}]")))
            }
            _ => Ok(()),
        }
    }

    #[inline(always)]
    pub(crate) fn of(&self, row: usize) -> f32 {
        match self {
            Scale::PerTensor(s) => *s,
            Scale::PerRow(s) => s[row],
        }
    }
}

/// Whether `arch` has an arm for `shape`: sm_90a and sm_121a have.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    tile::supported("gemm/fp8", arch)
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

    /// `out [m, n] = a [m, k] · b [n, k]ᵀ` times the scales, plus `bias [n]`. On an error, which names the argument,
    /// nothing is written.
    pub fn reference<O: Element>(
        &self,
        a: Rows<E4m3>,
        a_scale: Scale,
        b: Rows<E4m3>,
        b_scale: Scale,
        bias: Option<&[f32]>,
        out: &mut RowsMut<O>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        a.expect("a", a.rows(), k, "[m, k]")?;
        a_scale.check("a_scale", a.rows())?;
        b.expect("b", n, k, "[n, k]")?;
        b_scale.check("b_scale", n)?;
        tile::check_bias(bias, n)?;
        out.expect("out", a.rows(), n, "[m, n]")?;
        reference::run(self.arch, a, a_scale, b, b_scale, bias, out.rows_mut())
    }

    /// Rows `offsets[e]..offsets[e + 1]` of `out` are those of `a` times `b[e]`, `a_scales[e]` and `b_scales[e]`; a group
    /// may be empty. `offsets` has one element more than `b`, starts at 0, ascends and ends at `m`. On an error nothing
    /// is written.
    pub fn reference_grouped<O: Element>(
        &self,
        a: Rows<E4m3>,
        a_scales: &[f32],
        offsets: &[u32],
        b: &[Rows<E4m3>],
        b_scales: &[f32],
        out: &mut RowsMut<O>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        a.expect("a", a.rows(), k, "[m, k]")?;
        b.iter().try_for_each(|b| b.expect("b", n, k, "[n, k]"))?;
        tile::check_groups("a_scales", a_scales, b.len())?;
        tile::check_groups("b_scales", b_scales, b.len())?;
        tile::check_offsets(offsets, b.len(), a.rows())?;
        out.expect("out", a.rows(), n, "[m, n]")?;
        tile::grouped(out, tile::sizes(offsets), |e, rows, out| {
            let (a_scale, b_scale) = (Scale::PerTensor(a_scales[e]), Scale::PerTensor(b_scales[e]));
            reference::run(self.arch, a.slice("a", rows)?, a_scale, b[e], b_scale, None, out)
        })
    }
}
