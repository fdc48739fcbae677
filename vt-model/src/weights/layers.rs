//! Layers from a folder: every tensor is used once, and none is left.

use std::path::Path;

use rayon::prelude::*;
use vt_kernels::math;

use super::linear::Source;
use super::{Attention, Expert, Latent, Layer, Linear, Mamba, Mixer, Moe, Param, Weight, Weights};
use crate::checkpoint::Checkpoint;
use crate::config::{Config, LayerKind};
use crate::error::{Error, Result};
use crate::quant::QuantConfig;

pub(super) fn load(dir: &Path, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Weights> {
    let config = Config::load(dir)?;
    let source = Source { checkpoint: Checkpoint::open(dir, progress)?, quant: QuantConfig::load(dir)? };
    let prefix = prefix(&source)?;
    let (hidden, vocab) = (config.hidden_size, config.vocab_size);

    let kinds = config.layers.par_iter().enumerate();
    let layers: Result<Vec<Layer>> =
        kinds.map(|(i, kind)| layer(&source, &config, *kind, &format!("{prefix}layers.{i}"))).collect();
    let layers = layers?;
    let embeddings =
        source.bf16_param(&either(&source, prefix, "embeddings", "embed_tokens"), &[vocab, hidden])?;
    let norm = source.param(&either(&source, prefix, "norm_f", "norm"), &[hidden])?;
    let lm_head = if config.tie_word_embeddings && !source.checkpoint.has("lm_head.weight") {
        tied(&embeddings)
    } else {
        source.linear("lm_head", vocab, hidden, false)?
    };
    let mut unused = Vec::new();
    for name in source.checkpoint.unused() {
        if !name.starts_with("mtp.") {
            return Err(source.checkpoint.error(name, "surplus", "no tensor that the configuration has not"));
        }
        unused.push(name.to_string());
    }
    Ok(Weights { config, embeddings, layers, norm, lm_head, unused })
}

/// What stands before `layers`: producers disagree.
fn prefix(source: &Source<'_>) -> Result<&'static str> {
    for prefix in ["backbone.", "model.", ""] {
        for table in ["embeddings", "embed_tokens"] {
            if source.checkpoint.has(&format!("{prefix}{table}.weight")) {
                return Ok(prefix);
            }
        }
    }
    Err(source.checkpoint.error("backbone.embeddings.weight", "missing", "a tensor of this name"))
}

/// The tensor of either name that is there; the first if none is.
fn either(source: &Source<'_>, prefix: &str, first: &str, second: &str) -> String {
    let name = format!("{prefix}{second}.weight");
    if source.checkpoint.has(&name) { name } else { format!("{prefix}{first}.weight") }
}

fn tied(embeddings: &Param) -> Linear {
    let (rows, cols) = (embeddings.rows(), embeddings.cols());
    let data = match embeddings {
        Param::Bf16 { data, .. } => data.clone(),
        Param::F32 { data, .. } => data.iter().map(|&x| half::bf16::from_f32(x)).collect(),
    };
    Linear { weight: Weight::Bf16 { data, rows, cols }, bias: None }
}

fn layer(source: &Source<'_>, config: &Config, kind: LayerKind, name: &str) -> Result<Layer> {
    let mixer = format!("{name}.mixer");
    Ok(Layer {
        norm: source.param(&format!("{name}.norm.weight"), &[config.hidden_size])?,
        mixer: match kind {
            LayerKind::Mamba => Mixer::Mamba(mamba(source, config, &mixer)?),
            LayerKind::Attention => Mixer::Attention(attention(source, config, &mixer)?),
            LayerKind::Moe => Mixer::Moe(moe(source, config, &mixer)?),
            LayerKind::Mlp => Mixer::Mlp(expert(
                source,
                &mixer,
                config.hidden_size,
                config.intermediate_size,
                config.mlp_bias,
            )?),
        },
    })
}

fn mamba(source: &Source<'_>, config: &Config, name: &str) -> Result<Mamba> {
    let (hidden, inner, heads) = (config.hidden_size, config.d_inner(), config.mamba_num_heads);
    let (conv_dim, bias) = (config.conv_dim(), config.use_bias || config.mamba_proj_bias);
    let a_log = source.f32_param(&format!("{name}.A_log"), heads)?.to_f32();
    let conv_bias = match config.use_conv_bias {
        true => Some(source.bf16_param(&format!("{name}.conv1d.bias"), &[conv_dim])?),
        false => None,
    };
    Ok(Mamba {
        in_proj: source.linear(&format!("{name}.in_proj"), config.in_proj_dim(), hidden, bias)?,
        conv_weight: source.taps(&format!("{name}.conv1d.weight"), conv_dim, config.conv_kernel)?,
        conv_bias,
        a: Param::F32 { data: a_log.iter().map(|&x| -math::exp(x)).collect(), rows: 1, cols: heads },
        d: source.f32_param(&format!("{name}.D"), heads)?,
        dt_bias: source.f32_param(&format!("{name}.dt_bias"), heads)?,
        norm: source.param(&format!("{name}.norm.weight"), &[inner])?,
        out_proj: source.linear(&format!("{name}.out_proj"), hidden, inner, bias)?,
    })
}

fn attention(source: &Source<'_>, config: &Config, name: &str) -> Result<Attention> {
    let (hidden, bias) = (config.hidden_size, config.attention_bias);
    let linear = |part: &str, n, k| source.linear(&format!("{name}.{part}"), n, k, bias);
    Ok(Attention {
        q_proj: linear("q_proj", config.q_dim(), hidden)?,
        k_proj: linear("k_proj", config.kv_dim(), hidden)?,
        v_proj: linear("v_proj", config.kv_dim(), hidden)?,
        o_proj: linear("o_proj", hidden, config.q_dim())?,
        k_scale: source.scale(&format!("{name}.k_proj.k_scale"))?,
        v_scale: source.scale(&format!("{name}.v_proj.v_scale"))?,
    })
}

fn expert(source: &Source<'_>, name: &str, features: usize, inner: usize, bias: bool) -> Result<Expert> {
    Ok(Expert {
        up: source.linear(&format!("{name}.up_proj"), inner, features, bias)?,
        down: source.linear(&format!("{name}.down_proj"), features, inner, bias)?,
    })
}

fn moe(source: &Source<'_>, config: &Config, name: &str) -> Result<Moe> {
    let (hidden, experts, bias) = (config.hidden_size, config.n_routed_experts, config.mlp_bias);
    let features = config.moe_latent_size.unwrap_or(hidden);
    let inner = config.moe_intermediate_size;
    let shared_inner = config.moe_shared_expert_intermediate_size * config.n_shared_experts;
    let bias_name = format!("{name}.gate.e_score_correction_bias");
    let correction_bias = match source.checkpoint.has(&bias_name) {
        true => Some(source.f32_param(&bias_name, experts)?),
        false => None,
    };
    let shared = match config.n_shared_experts {
        0 => None,
        _ => Some(expert(source, &format!("{name}.shared_experts"), hidden, shared_inner, bias)?),
    };
    let latent = match config.moe_latent_size {
        Some(size) => Some(Latent {
            down: source.linear(&format!("{name}.fc1_latent_proj"), size, hidden, bias)?,
            up: source.linear(&format!("{name}.fc2_latent_proj"), hidden, size, bias)?,
        }),
        None => None,
    };
    Ok(Moe {
        gate: source.param(&format!("{name}.gate.weight"), &[experts, hidden])?,
        correction_bias,
        experts: routed(source, &format!("{name}.experts"), experts, features, inner, bias)?,
        shared,
        latent,
    })
}

/// Experts one by one, or all of a layer in one tensor.
fn routed(
    source: &Source<'_>,
    name: &str,
    experts: usize,
    features: usize,
    inner: usize,
    bias: bool,
) -> Result<Vec<Expert>> {
    let (up, down) = (format!("{name}.up_proj"), format!("{name}.down_proj"));
    if !source.checkpoint.has(&up) {
        let each = (0..experts).into_par_iter();
        return each.map(|e| expert(source, &format!("{name}.{e}"), features, inner, bias)).collect();
    }
    if bias {
        let reason = "fused experts have no bias in any known checkpoint".into();
        return Err(Error::Unsupported { what: format!("mlp_bias with {up}"), reason });
    }
    let each = (0..experts).into_par_iter();
    each.map(|e| {
        Ok(Expert {
            up: source.fused(&up, e, experts, inner, features)?,
            down: source.fused(&down, e, experts, features, inner)?,
        })
    })
    .collect()
}
