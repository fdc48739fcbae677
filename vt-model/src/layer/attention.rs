//! The attention mixer: grouped-query attention over a paged cache, without positional encoding.

use half::bf16;

use crate::backend::{Backend, Qkv};
use crate::error::Result;
use crate::layer::Step;
use crate::weights::Attention;

/// `o_proj(attention(q_proj(x), k_proj(x), v_proj(x)))`.
pub(crate) fn forward<B: Backend>(
    step: &mut Step<'_, B>,
    weights: &Attention<B::Linear>,
    cache: &mut B::KvCache,
    x: &B::Matrix<bf16>,
) -> Result<B::Matrix<bf16>> {
    let backend = step.backend;
    let q = backend.linear(&weights.q_proj, x)?;
    let q = step.traced("q", q);
    let k = backend.linear(&weights.k_proj, x)?;
    let k = step.traced("k", k);
    let v = backend.linear(&weights.v_proj, x)?;
    let v = step.traced("v", v);
    let (k_scale, v_scale) = (weights.k_scale.unwrap_or(1.0), weights.v_scale.unwrap_or(1.0));
    let qkv = Qkv { q: &q, k: &k, v: &v, k_scale, v_scale };
    let y = backend.attention(step.config, qkv, step.batch, step.block_size, cache)?;
    let y = step.traced("attention", y);
    let out = backend.linear(&weights.o_proj, &y)?;
    Ok(step.traced("o_proj", out))
}
