//! Rows of the tokens in the order of experts: `out[r] = x[source[r] / top_k]`, bits unchanged.
//!
//! # Shapes and layouts
//! `x`: `[total_tokens, cols]`, strided; `source`: `[total_tokens · top_k]`, from
//! [`permute`](super::permute); `out`: `[total_tokens · top_k, cols]`, strided.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, moe::gather};
//! let plan = gather::Plan::new(Arch::Sm90a, gather::Shape { cols: 1, top_k: 2 })?;
//! let (x, mut out) = ([7.0f32, 8.0], [0.0f32; 4]);
//! let view = &mut RowsMut::new("out", &mut out, 4, 1)?;
//! plan.reference(Rows::new("x", &x, 2, 1)?, &[1, 2, 0, 3], view)?;
//! assert_eq!(out, [7.0, 8.0, 7.0, 8.0]);
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
    arch::simt("moe/gather", arch)
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

    /// Gathers on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; a slot that is not there.
    pub fn reference<T: Element>(
        &self,
        x: Rows<'_, T>,
        source: &[u32],
        out: &mut RowsMut<'_, T>,
    ) -> Result<()> {
        let Shape { cols, top_k } = self.shape;
        x.expect("x", x.rows(), cols, "[total_tokens, cols]")?;
        let slots = x.rows() * top_k;
        checks::per("source", source, slots, "total_tokens * top_k")?;
        out.expect("out", slots, cols, "[total_tokens * top_k, cols]")?;
        if let Some(at) = source.iter().position(|&slot| slot as usize >= slots) {
            return Err(Error::value("source", format!("{} at {at}", source[at]), format!("below {slots}")));
        }
        reference::run(top_k, x, source, out);
        Ok(())
    }
}
