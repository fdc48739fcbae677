//! GEMM of bf16 activations and bf16 weights, dense and grouped.
//!
//! `out[m, n] = round(Σ_k a[m, k] · b[n, k] + bias[n])`
//!
//! *Order of reduction.* K is cut into slices of [`K_SLICE`](super::K_SLICE) = 512. Each slice is folded from zero by
//! m16n8k16 MMA steps in ascending order of K; slice sums are added in ascending order in f32, the first taken as it is.
//!
//! *Shapes and layouts.* `a` `[m, k]`, `b` `[n, k]`, `bias` `[n]` f32, `out` `[m, n]`; rows may be strided. Any `k ≥ 1`:
//! the tail of the last step counts as zeros. Grouped: rows `offsets[e]..offsets[e + 1]` of `a` meet `b[e]`.
//!
//! *Rounding.* Products are exact; the MMA sums 16 of them and the accumulator toward zero, keeping 25 fraction bits
//! below the largest exponent ([`mma`](crate::mma)); slice sums and bias are f32 additions; one rounding to `O` on store.
//!
//! *Arms.* sm_121a: `mma.sync.m16n8k16`. sm_90a: `wgmma.m64nNk16`, whose step equals that of `mma.sync`.
//!
//! *Source.* PyTorch `F.linear`; steps of the MMA as measured on sm_90 and modelled by MMA-Sim (arXiv 2511.10909).
//!
//! ```
//! use half::bf16;
//! use vt_kernels::{Arch, Rows, RowsMut, gemm};
//! let plan = gemm::bf16::Plan::new(Arch::Sm121a, gemm::bf16::Shape { n: 2, k: 3 })?;
//! let a = [1.0, 2.0, 3.0].map(bf16::from_f32);
//! let b = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0].map(bf16::from_f32);
//! let mut out = [0.0f32; 2];
//! plan.reference(
//!     Rows::new("a", &a, 1, 3)?,
//!     Rows::new("b", &b, 2, 3)?,
//!     Some(&[0.5, 0.0]),
//!     &mut RowsMut::new("out", &mut out, 1, 2)?,
//! )?;
//! assert_eq!(out, [1.5, 6.0]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

use half::bf16;

pub use super::Shape;
use super::tile;
use crate::{Arch, Element, Result, Rows, RowsMut, Unsupported};

mod reference;

/// Whether `arch` has an arm for `shape`: sm_90a and sm_121a have.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    tile::supported("gemm/bf16", arch)
}

/// A checked shape on an architecture.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    arch: Arch,
    shape: Shape,
}

impl Plan {
    /// Checks `shape` (`n` and `k` at least 1) and that `arch` has an arm for it.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        tile::check_shape(&shape, 1)?;
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
        b: Rows<bf16>,
        bias: Option<&[f32]>,
        out: &mut RowsMut<O>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        a.expect("a", a.rows(), k, "[m, k]")?;
        b.expect("b", n, k, "[n, k]")?;
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
        b: &[Rows<bf16>],
        out: &mut RowsMut<O>,
    ) -> Result<()> {
        let Shape { n, k } = self.shape;
        a.expect("a", a.rows(), k, "[m, k]")?;
        b.iter().try_for_each(|b| b.expect("b", n, k, "[n, k]"))?;
        tile::check_offsets(offsets, b.len(), a.rows())?;
        out.expect("out", a.rows(), n, "[m, n]")?;
        tile::grouped(out, tile::sizes(offsets), |e, rows, out| {
            reference::run(self.arch, a.slice("a", rows)?, b[e], None, out)
        })
    }
}
