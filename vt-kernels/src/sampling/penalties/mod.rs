//! Lowers logits of tokens that were seen.
//!
//! Repetition: for tokens of the prompt or the output, `logit / r` if positive, else `logit · r`. Then, for tokens of the
//! output that occur `n` times: `(logit − n · frequency) − presence`. In f32, in this order.
//!
//! # Shapes and layouts
//! `params`, `prompt`, `output`: one entry a row; `logits`: `[rows, vocab]` f32, strided, in place.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! Repetition: CTRL (Keskar et al., 2019), §4.1; presence and frequency: OpenAI's API; order as in vLLM.
//!
//! ```
//! use vt_kernels::{Arch, RowsMut, sampling::penalties::{Penalties, Plan, Shape}};
//! let plan = Plan::new(Arch::Sm90a, Shape { vocab: 3 })?;
//! let params = Penalties { repetition: 2.0, presence: 0.5, frequency: 0.25 };
//! let mut logits = [4.0, -1.0, 7.0];
//! let view = &mut RowsMut::new("logits", &mut logits, 1, 3)?;
//! plan.reference(&[params], &[&[0]], &[&[1, 1]], view)?;
//! assert_eq!(logits, [2.0, -3.0, 7.0]); // 4 / 2; -1 · 2 - 2 · 0.25 - 0.5
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Error, Result, RowsMut, Unsupported, arch, checks};

/// Size of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tokens of the vocabulary.
    pub vocab: usize,
}

/// How much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// Positive and finite; 1 does nothing.
    pub repetition: f32,
    /// Finite; 0 does nothing.
    pub presence: f32,
    /// Finite; 0 does nothing.
    pub frequency: f32,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("sampling/penalties", arch)
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

    /// Penalises on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; a parameter out of range; a token that is not below `vocab`. Nothing is written then.
    pub fn reference(
        &self,
        params: &[Penalties],
        prompt: &[&[u32]],
        output: &[&[u32]],
        logits: &mut RowsMut<'_, f32>,
    ) -> Result<()> {
        let (rows, vocab) = (logits.rows(), self.shape.vocab);
        logits.expect("logits", rows, vocab, "[rows, vocab]")?;
        checks::per("params", params, rows, "rows")?;
        checks::per("prompt", prompt, rows, "rows")?;
        checks::per("output", output, rows, "rows")?;
        for Penalties { repetition, presence, frequency } in params {
            if !(repetition.is_finite() && *repetition > 0.0) {
                return Err(Error::value("repetition", repetition, "a finite number above 0"));
            }
            for (arg, value) in [("presence", presence), ("frequency", frequency)] {
                if !value.is_finite() {
                    return Err(Error::value(arg, value, "a finite number"));
                }
            }
        }
        for (arg, lists) in [("prompt", prompt), ("output", output)] {
            if let Some(id) = lists.iter().flat_map(|ids| *ids).find(|id| **id as usize >= vocab) {
                return Err(Error::value(arg, format!("token {id}"), format!("below vocab = {vocab}")));
            }
        }
        reference::run(params, prompt, output, logits);
        Ok(())
    }
}
