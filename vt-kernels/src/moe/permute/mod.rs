//! Orders the slots of all tokens by expert, stably: a counting sort.
//!
//! Slot `t · top_k + j` is token `t`'s `j`-th expert. `offsets[e]..offsets[e + 1]` are expert `e`'s rows in the
//! sorted order; `source` leads from a sorted row to its slot, `position` back. All in integers.
//!
//! # Shapes and layouts
//! `ids`: `[total_tokens, top_k]`, strided; `offsets`: `[n_experts + 1]`; `source`, `position`:
//! `[total_tokens · top_k]`.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! ```
//! use vt_kernels::{Arch, Rows, moe::permute};
//! let plan = permute::Plan::new(Arch::Sm90a, permute::Shape { n_experts: 3, top_k: 2 })?;
//! let (mut offsets, mut source, mut position) = ([0; 4], [0; 4], [0; 4]);
//! let ids = Rows::new("ids", &[2, 0, 0, 2], 2, 2)?;
//! plan.reference(ids, &mut offsets, &mut source, &mut position)?;
//! assert_eq!((offsets, source, position), ([0, 2, 2, 4], [1, 2, 0, 3], [2, 0, 1, 3]));
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Error, Result, Rows, Unsupported, arch, checks};

/// Sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Experts.
    pub n_experts: usize,
    /// Experts of a token.
    pub top_k: usize,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("moe/permute", arch)
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        if shape.n_experts == 0 || u32::try_from(shape.n_experts).is_err() {
            return Err(Error::value("n_experts", shape.n_experts, "1 to 2^32 - 1"));
        }
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

    /// Sorts on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; an id that is no expert. Nothing is written then.
    pub fn reference(
        &self,
        ids: Rows<'_, u32>,
        offsets: &mut [u32],
        source: &mut [u32],
        position: &mut [u32],
    ) -> Result<()> {
        let Shape { n_experts, top_k } = self.shape;
        ids.expect("ids", ids.rows(), top_k, "[total_tokens, top_k]")?;
        let slots = ids.rows() * top_k;
        if u32::try_from(slots).is_err() {
            return Err(Error::shape("ids", &[ids.rows(), top_k], "fewer than 2^32 slots"));
        }
        checks::per("offsets", offsets, n_experts + 1, "n_experts + 1")?;
        checks::per("source", source, slots, "total_tokens * top_k")?;
        checks::per("position", position, slots, "total_tokens * top_k")?;
        for t in 0..ids.rows() {
            if let Some(id) = ids.row(t).iter().find(|id| **id as usize >= n_experts) {
                let expected = format!("below n_experts = {n_experts}");
                return Err(Error::value("ids", format!("{id} of token {t}"), expected));
            }
        }
        reference::run(ids, offsets, source, position);
        Ok(())
    }
}
