//! Log-probabilities of chosen tokens and of the best ones, in nats.
//!
//! `logprob = (logit − largest) − ln(Σ exp(logit − largest))`, `ln(x)` as `log1p(x − 1)`.
//!
//! # Order of reduction
//! `Σ` is [`lane_sum`](crate::reduce::lane_sum) over 256 lanes in vectors of 4. The best tokens come in
//! descending order of logit, equal ones in ascending order of id.
//!
//! # Shapes and layouts
//! `logits`: `[rows, vocab]` f32, strided; `chosen`, `chosen_logprobs`: `[rows]`; `top_ids`,
//! `top_logprobs`: `[rows, top_n]`, strided.
//!
//! # Special values
//! A NaN logit counts as −∞ and comes last; its log-probability is NaN. In a row of NaN and −∞ alone every
//! log-probability is NaN.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, sampling::logprobs};
//! let plan = logprobs::Plan::new(Arch::Sm90a, logprobs::Shape { vocab: 2, top_n: 1 })?;
//! let (mut chosen, mut id, mut best) = ([0.0], [0], [0.0]);
//! plan.reference(
//!     Rows::new("logits", &[1.0, 1.0], 1, 2)?,
//!     &[1],
//!     &mut chosen,
//!     &mut RowsMut::new("top_ids", &mut id, 1, 1)?,
//!     &mut RowsMut::new("top_logprobs", &mut best, 1, 1)?,
//! )?;
//! assert_eq!((chosen[0], id, best[0]), (-std::f32::consts::LN_2, [0], -std::f32::consts::LN_2));
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Error, Result, Rows, RowsMut, Unsupported, arch, checks};

/// Sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tokens of the vocabulary.
    pub vocab: usize,
    /// How many of the best to report, at most `vocab`.
    pub top_n: usize,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("sampling/logprobs", arch)
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
        if shape.top_n > shape.vocab {
            return Err(Error::value("top_n", shape.top_n, format!("at most vocab = {}", shape.vocab)));
        }
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Computes on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; a chosen id that is not below `vocab`.
    pub fn reference(
        &self,
        logits: Rows<'_, f32>,
        chosen: &[u32],
        chosen_logprobs: &mut [f32],
        top_ids: &mut RowsMut<'_, u32>,
        top_logprobs: &mut RowsMut<'_, f32>,
    ) -> Result<()> {
        let (rows, Shape { vocab, top_n }) = (logits.rows(), self.shape);
        super::check_logits(&logits, vocab)?;
        checks::per("chosen", chosen, rows, "rows")?;
        checks::per("chosen_logprobs", chosen_logprobs, rows, "rows")?;
        top_ids.expect("top_ids", rows, top_n, "[rows, top_n]")?;
        top_logprobs.expect("top_logprobs", rows, top_n, "[rows, top_n]")?;
        if let Some(at) = chosen.iter().position(|&id| id as usize >= vocab) {
            let got = format!("{} at {at}", chosen[at]);
            return Err(Error::value("chosen", got, format!("below vocab = {vocab}")));
        }
        reference::run(logits, chosen, chosen_logprobs, top_ids, top_logprobs);
        Ok(())
    }
}
