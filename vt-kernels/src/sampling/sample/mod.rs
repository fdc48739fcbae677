//! Draws a token from each row of logits.
//!
//! Temperature 0 takes the best token ([`argmax`](super::argmax)). Else, for the tokens in descending order of
//! `logit / temperature`, equal ones in ascending order of id:
//!
//! ```text
//! w_i    = exp(l_i − l_0)
//! min-p  keeps w_i ≥ min_p                   (w_0 = 1)
//! top-k  keeps the first k
//! top-p  keeps i while Σ_(j < i) w_j < top_p · Σ w, sums over what is kept so far
//! draw   u · Σ w falls into the first i with Σ_(j ≤ i) w_j > u · Σ w
//! ```
//!
//! `u` = the leading 24 bits of the first word of Philox4x32-10 with key `seed` and counter `step`, over 2^24. Equal
//! seed, step and logits give equal tokens, whatever the batch.
//!
//! # Order of reduction
//! All sums run in the sorted order, in f32.
//!
//! # Shapes and layouts
//! `logits`: `[rows, vocab]` f32, strided; `params`, `ids`: `[rows]`.
//!
//! # Special values
//! NaN is never drawn; logits of +∞ share the draw alone. A row of NaN and −∞ alone gives token 0.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! top-p: Holtzman et al. (2020); min-p: Nguyen et al. (2024); order of the filters as in vLLM.
//!
//! ```
//! use vt_kernels::{Arch, Rows, sampling::sample::{Params, Plan, Shape}};
//! let plan = Plan::new(Arch::Sm90a, Shape { vocab: 3 })?;
//! let params =
//!     Params { temperature: 1.0, top_k: Some(1), top_p: 1.0, min_p: 0.0, seed: 1, step: 0 };
//! let mut ids = [0];
//! plan.reference(Rows::new("logits", &[0.0, 5.0, 1.0], 1, 3)?, &[params], &mut ids)?;
//! assert_eq!(ids, [1]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Error, Result, Rows, Unsupported, arch, checks};

/// Size of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tokens of the vocabulary.
    pub vocab: usize,
}

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Divides the logits; 0 is greedy. Finite, at least 0.
    pub temperature: f32,
    /// Keeps the best so many, at least 1.
    pub top_k: Option<u32>,
    /// Above 0, at most 1; 1 keeps all.
    pub top_p: f32,
    /// 0 to 1; 0 keeps all.
    pub min_p: f32,
    /// Key of the generator.
    pub seed: u64,
    /// Counter of the generator: the number of the token in its sequence.
    pub step: u64,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("sampling/sample", arch)
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

    /// Draws on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; a parameter out of range. Nothing is written then.
    pub fn reference(&self, logits: Rows<'_, f32>, params: &[Params], ids: &mut [u32]) -> Result<()> {
        super::check_logits(&logits, self.shape.vocab)?;
        checks::per("params", params, logits.rows(), "rows")?;
        checks::per("ids", ids, logits.rows(), "rows")?;
        for params in params {
            if !(params.temperature.is_finite() && params.temperature >= 0.0) {
                return Err(Error::value("temperature", params.temperature, "a finite number, at least 0"));
            }
            if params.top_k == Some(0) {
                return Err(Error::value("top_k", 0, "at least 1"));
            }
            if !(params.top_p > 0.0 && params.top_p <= 1.0) {
                return Err(Error::value("top_p", params.top_p, "above 0, at most 1"));
            }
            if !(0.0..=1.0).contains(&params.min_p) {
                return Err(Error::value("min_p", params.min_p, "0 to 1"));
            }
        }
        reference::run(logits, params, ids);
        Ok(())
    }
}
