//! The best token of each row: the lowest index of the largest logit.
//!
//! NaN never wins; a row of NaN and −∞ alone gives 0. Exact in any order.
//!
//! # Shapes and layouts
//! `logits`: `[rows, vocab]` f32, strided; `ids`: `[rows]`.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! ```
//! use vt_kernels::{Arch, Rows, sampling::argmax};
//! let plan = argmax::Plan::new(Arch::Sm90a, argmax::Shape { vocab: 4 })?;
//! let mut ids = [0];
//! plan.reference(Rows::new("logits", &[f32::NAN, 2.0, 3.0, 3.0], 1, 4)?, &mut ids)?;
//! assert_eq!(ids, [2]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Result, Rows, Unsupported, arch, checks};

/// Size of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tokens of the vocabulary.
    pub vocab: usize,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("sampling/argmax", arch)
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        super::check_vocab(shape.vocab)?;
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Chooses on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn reference(&self, logits: Rows<'_, f32>, ids: &mut [u32]) -> Result<()> {
        super::check_logits(&logits, self.shape.vocab)?;
        checks::per("ids", ids, logits.rows(), "rows")?;
        reference::run(logits, ids);
        Ok(())
    }
}
