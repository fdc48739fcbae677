//! The normaliser of a row of logits.

use crate::host::dispatch;
use crate::math::{exp, log1p};
use crate::reduce::lane_sum;

/// Largest logit and `Σ exp(logit − largest)`; logits that are NaN count as −∞. A row without a number above −∞
/// has the sum 0.
pub(super) fn normaliser(logits: &[f32]) -> (f32, f32) {
    let largest = logits.iter().fold(f32::NEG_INFINITY, |max: f32, &x| max.max(x));
    if largest == f32::NEG_INFINITY {
        return (largest, 0.0);
    }
    let sum = dispatch(
        #[inline(always)]
        || lane_sum(logits.len(), 4, 256, |sum, i| sum + weight(logits[i], largest)),
    );
    (largest, sum)
}

/// `exp(logit − largest)`: 1 for the largest (∞ too), 0 for NaN.
#[inline(always)]
pub(super) fn weight(logit: f32, largest: f32) -> f32 {
    let value = exp(logit - largest);
    if logit == largest {
        1.0
    } else if logit.is_nan() {
        0.0
    } else {
        value
    }
}

/// `ln(sum)` for a sum of at least 1.
pub(super) fn log_sum(sum: f32) -> f32 {
    log1p(sum - 1.0)
}
