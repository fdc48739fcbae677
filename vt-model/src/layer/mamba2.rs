//! The Mamba2 mixer: in_proj, causal conv, scan, gated group norm, out_proj.

use half::bf16;

use crate::backend::{Backend, MambaCall};
use crate::error::Result;
use crate::layer::Step;
use crate::trace::Values;
use crate::weights::Mamba;

/// `out_proj(gated_norm(scan(conv(xBC)), z))` with `z | xBC | dt = in_proj(x)`.
///
/// Tokens that decode go through the updates, tokens that prefill through the conv and the chunk scan; the
/// norm applies the gate, so the scan is not given `z`.
pub(crate) fn forward<B: Backend>(
    step: &mut Step<'_, B>,
    weights: &Mamba<B::Linear, B::Param>,
    cache: &mut B::MambaCache,
    x: &B::Matrix<bf16>,
) -> Result<B::Matrix<bf16>> {
    let (backend, config, batch) = (step.backend, step.config, step.batch);
    let (d_inner, conv_dim) = (config.d_inner(), config.conv_dim());
    let decodes = batch.n_decode > 0;
    let prefills = batch.n_seqs() > batch.n_decode;

    let zxbcdt = backend.linear(&weights.in_proj, x)?;
    let zxbcdt = step.traced("in_proj", zxbcdt);
    let xbc = d_inner..d_inner + conv_dim;
    let mut conv = backend.zeros(batch.total_tokens(), conv_dim);
    let mut call = MambaCall { config, weights, zxbcdt: &zxbcdt, batch, cache: &mut *cache, out: &mut conv };
    if decodes {
        backend.conv_update(&mut call, xbc.clone())?;
    }
    if prefills {
        backend.conv_forward(&mut call, xbc)?;
    }
    step.matrix("conv", &conv);

    let mut y = backend.zeros(batch.total_tokens(), d_inner);
    let mut call = MambaCall { config, weights, zxbcdt: &zxbcdt, batch, cache: &mut *cache, out: &mut y };
    if decodes {
        backend.state_update(&mut call, &conv)?;
    }
    if prefills {
        backend.chunk_scan(&mut call, &conv)?;
    }
    step.matrix("scan", &y);
    if step.trace.enabled() {
        let (conv_state, ssm_state) = backend.read_states(cache, &batch.slots);
        step.values("conv_state", batch.last_rows(), Values::new(&conv_state));
        step.values("ssm_state", batch.last_rows(), Values::new(&ssm_state));
    }

    let y = backend.gated_norm(config, &weights.norm, &y, &zxbcdt)?;
    step.matrix("gated_norm", &y);
    let out = backend.linear(&weights.out_proj, &y)?;
    Ok(step.traced("out_proj", out))
}
