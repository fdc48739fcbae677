//! Mixture of experts and the dense MLP: non-gated squared-ReLU feed-forwards.

use half::bf16;

use crate::backend::Backend;
use crate::error::Result;
use crate::layer::Step;
use crate::trace::Values;
use crate::weights::{Expert, Moe};

/// `down(relu²(up(x)))`.
pub(crate) fn mlp<B: Backend>(
    step: &mut Step<'_, B>,
    weights: &Expert<B::Linear>,
    x: &B::Matrix<bf16>,
) -> Result<B::Matrix<bf16>> {
    let backend = step.backend;
    let up = backend.linear(&weights.up, x)?;
    let up = step.traced("mlp_up", up);
    let hidden = backend.relu2(&up)?;
    let out = backend.linear(&weights.down, &hidden)?;
    Ok(step.traced("mlp_down", out))
}

/// Routed experts, scaled, plus the shared expert. Latent experts work between two projections; the router
/// and the shared expert see all of `x`.
pub(crate) fn forward<B: Backend>(
    step: &mut Step<'_, B>,
    weights: &Moe<B::Linear, B::Param>,
    x: &B::Matrix<bf16>,
) -> Result<B::Matrix<bf16>> {
    let (backend, config) = (step.backend, step.config);
    let logits = backend.router(&weights.gate, x)?;
    step.matrix("router_logits", &logits);
    let routing = backend.route(config, &logits, weights.correction_bias.as_ref())?;
    if step.trace.enabled() {
        let (ids, chosen_weights) = backend.read_routing(&routing);
        let rows = &step.batch.rows;
        step.values("expert_ids", rows.clone(), Values::U32(ids));
        step.values("expert_weights", rows.clone(), Values::F32(chosen_weights));
    }
    let shared = match &weights.shared {
        Some(expert) => Some(mlp(step, expert, x)?),
        None => None,
    };
    let latent = match &weights.latent {
        Some(latent) => {
            let down = backend.linear(&latent.down, x)?;
            Some(step.traced("latent_down", down))
        }
        None => None,
    };
    let sorted = backend.gather(latent.as_ref().unwrap_or(x), &routing)?;
    let ups: Vec<_> = weights.experts.iter().map(|e| &e.up).collect();
    let downs: Vec<_> = weights.experts.iter().map(|e| &e.down).collect();
    let hidden = backend.relu2(&backend.grouped_linear(&ups, &sorted, &routing)?)?;
    let expert_out = backend.grouped_linear(&downs, &hidden, &routing)?;
    let scale = config.routed_scaling_factor;
    let out = match &weights.latent {
        None => backend.combine(&expert_out, &routing, shared.as_ref(), scale)?,
        Some(latent) => {
            let routed = backend.combine(&expert_out, &routing, None, scale)?;
            let routed = step.traced("latent_out", routed);
            let up = backend.linear(&latent.up, &routed)?;
            match &shared {
                Some(shared) => backend.add(&up, shared)?,
                None => up,
            }
        }
    };
    Ok(step.traced("moe_out", out))
}
