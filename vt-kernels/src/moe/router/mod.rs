//! Chooses experts by sigmoid scores with a correction bias, inside the best groups.
//!
//! ```text
//! score  = sigmoid(logit)                         choice = score + correction_bias
//! group  = sum of the two largest choices of its experts; the topk_group best groups stay
//! ids    = the top_k experts of those groups by choice, best first
//! weight = score (without bias) of each, divided by (Σ + 1e-20) if norm_topk_prob
//! ```
//!
//! Ties go to the lower group and the lower expert. The routed scaling factor is applied by
//! [`combine`](super::combine), once.
//!
//! # Order of reduction
//! A group's sum adds the second largest choice to the largest; `Σ` adds weights in the order chosen. In f32.
//!
//! # Shapes and layouts
//! `logits`: `[total_tokens, n_experts]` f32, strided; `correction_bias`: `[n_experts]` f32;
//! `ids`: `[total_tokens, top_k]` u32; `weights`: `[total_tokens, top_k]` f32.
//!
//! # Special values
//! An expert whose choice is NaN is chosen last; its weight is NaN. Ids of a token always differ.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! DeepSeek-V3 (2024), eq. 12–16, with one bias; `NemotronHTopkRouter` of transformers.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, moe::router};
//! let shape =
//!     router::Shape { n_experts: 3, top_k: 2, n_group: 1, topk_group: 1, norm_topk_prob: true };
//! let plan = router::Plan::new(Arch::Sm90a, shape)?;
//! let (mut ids, mut weights) = ([0; 2], [0.0; 2]);
//! plan.reference(
//!     Rows::new("logits", &[0.0, 9.0, 0.0], 1, 3)?,
//!     Some(&[0.1, -9.0, 0.2]), // the bias selects 2 and 0, and is not in their weights
//!     &mut RowsMut::new("ids", &mut ids, 1, 2)?,
//!     &mut RowsMut::new("weights", &mut weights, 1, 2)?,
//! )?;
//! assert_eq!((ids, weights), ([2, 0], [0.5, 0.5]));
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Error, Result, Rows, RowsMut, Unsupported, arch, checks};

/// Sizes and the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Experts.
    pub n_experts: usize,
    /// Experts chosen for a token.
    pub top_k: usize,
    /// Groups of experts; divides `n_experts`.
    pub n_group: usize,
    /// Groups that stay.
    pub topk_group: usize,
    /// Whether weights are divided by their sum.
    pub norm_topk_prob: bool,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("moe/router", arch)
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    ///
    /// # Errors
    /// A number of groups that does not divide the experts; more groups or experts wanted than there are.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        let Shape { n_experts, top_k, n_group, topk_group, .. } = shape;
        if n_experts == 0 || u32::try_from(n_experts).is_err() {
            return Err(Error::value("n_experts", n_experts, "1 to 2^32 - 1"));
        }
        if n_group == 0 || !n_experts.is_multiple_of(n_group) {
            return Err(Error::value("n_group", n_group, format!("a divisor of n_experts = {n_experts}")));
        }
        if topk_group == 0 || topk_group > n_group {
            return Err(Error::value("topk_group", topk_group, format!("1 to n_group = {n_group}")));
        }
        let within = n_experts / n_group * topk_group;
        if top_k == 0 || top_k > within {
            return Err(Error::value(
                "top_k",
                top_k,
                format!("1 to the {within} experts of topk_group groups"),
            ));
        }
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Routes on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn reference(
        &self,
        logits: Rows<'_, f32>,
        correction_bias: Option<&[f32]>,
        ids: &mut RowsMut<'_, u32>,
        weights: &mut RowsMut<'_, f32>,
    ) -> Result<()> {
        let (rows, Shape { n_experts, top_k, .. }) = (logits.rows(), self.shape);
        logits.expect("logits", rows, n_experts, "[total_tokens, n_experts]")?;
        if let Some(bias) = correction_bias {
            checks::per("correction_bias", bias, n_experts, "n_experts")?;
        }
        ids.expect("ids", rows, top_k, "[total_tokens, top_k]")?;
        weights.expect("weights", rows, top_k, "[total_tokens, top_k]")?;
        reference::run(&self.shape, logits, correction_bias, ids, weights);
        Ok(())
    }
}
