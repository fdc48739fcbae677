//! `config.json` of the Nemotron-H family, in every dialect, and `generation_config.json`.

use std::path::Path;

use crate::error::{Error, Result};
use crate::quant::QuantConfig;

mod fields;
pub(crate) mod json;
mod schedule;

use fields::Fields;
use json::Json;

/// The mixer of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerKind {
    /// Mamba2.
    Mamba,
    /// Grouped-query attention.
    Attention,
    /// Mixture of experts.
    Moe,
    /// Dense feed-forward.
    Mlp,
}

/// Type of the stored SSM state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateDtype {
    /// f32.
    F32,
    /// bf16.
    Bf16,
}

/// A model's configuration. Fields have the names of transformers' `NemotronHConfig`, whose defaults stand in for
/// absent ones.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The names are the fields' own documentation.
pub struct Config {
    pub hidden_size: usize,
    pub vocab_size: usize,
    /// From `layers_block_type`, `layer_types` or `hybrid_override_pattern`.
    pub layers: Vec<LayerKind>,
    pub layer_norm_epsilon: f32,
    pub residual_in_fp32: bool,
    pub tie_word_embeddings: bool,
    pub use_bias: bool,
    pub max_position_embeddings: usize,

    pub mamba_num_heads: usize,
    pub mamba_head_dim: usize,
    pub n_groups: usize,
    pub ssm_state_size: usize,
    pub conv_kernel: usize,
    pub chunk_size: usize,
    pub use_conv_bias: bool,
    pub mamba_proj_bias: bool,
    pub time_step_limit: (f32, f32),
    pub mamba_ssm_cache_dtype: StateDtype,

    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    pub head_dim: usize,
    pub attention_bias: bool,
    pub sliding_window: Option<usize>,
    /// Whether the checkpoint asks for an FP8 cache of keys and values.
    pub kv_cache_fp8: bool,

    pub intermediate_size: usize,
    pub mlp_bias: bool,
    pub n_routed_experts: usize,
    pub n_shared_experts: usize,
    pub num_experts_per_tok: usize,
    pub n_group: usize,
    pub topk_group: usize,
    pub norm_topk_prob: bool,
    pub routed_scaling_factor: f32,
    pub moe_intermediate_size: usize,
    pub moe_shared_expert_intermediate_size: usize,
    pub moe_latent_size: Option<usize>,

    pub num_nextn_predict_layers: usize,
    pub bos_token_id: Option<u32>,
    pub eos_token_id: Vec<u32>,
    pub pad_token_id: Option<u32>,
}

impl Config {
    /// Reads `config.json`, and `hf_quant_config.json` if there is one, in `dir`.
    pub fn load(dir: &Path) -> Result<Config> {
        let path = dir.join("config.json");
        let mut config = Config::from_value(&Json::read(&path)?, &path)?;
        config.kv_cache_fp8 = QuantConfig::load(dir)?.kv_cache_fp8;
        Ok(config)
    }

    /// Reads the text of a `config.json`; `origin` names it in errors.
    pub fn from_json(text: &str, origin: &Path) -> Result<Config> {
        Config::from_value(&Json::parse(text, origin)?, origin)
    }

    pub(crate) fn from_value(json: &Json, path: &Path) -> Result<Config> {
        let f = Fields { json, path };
        if !matches!(json, Json::Map(_)) {
            return Err(Error::format(path, format!("{json}, expected a map of fields")));
        }
        check_text(&f, "model_type", "nemotron_h")?;
        check_text(&f, "mlp_hidden_act", "relu2")?;
        check_text(&f, "mamba_hidden_act", "silu")?;
        let hidden_size = f.size(&["hidden_size"], 4096, 1)?;
        let num_attention_heads = f.size(&["num_attention_heads"], 32, 1)?;
        let limit = time_step_limit(&f)?;
        let config = Config {
            hidden_size,
            vocab_size: f.size(&["vocab_size"], 131_072, 1)?,
            layers: schedule::layers(&f)?,
            layer_norm_epsilon: f.number(&["layer_norm_epsilon", "norm_eps"], 1e-5)? as f32,
            residual_in_fp32: f.flag(&["residual_in_fp32"], false)?,
            tie_word_embeddings: f.flag(&["tie_word_embeddings"], false)?,
            use_bias: f.flag(&["use_bias"], false)?,
            max_position_embeddings: f.size(&["max_position_embeddings"], 4096, 1)?,
            mamba_num_heads: f.size(&["mamba_num_heads"], 128, 1)?,
            mamba_head_dim: f.size(&["mamba_head_dim"], 64, 1)?,
            n_groups: f.size(&["mamba_n_groups", "n_groups"], 8, 1)?,
            ssm_state_size: f.size(&["ssm_state_size"], 128, 1)?,
            conv_kernel: f.size(&["mamba_d_conv", "conv_kernel"], 4, 1)?,
            chunk_size: f.size(&["mamba_chunk_size", "chunk_size"], 128, 1)?,
            use_conv_bias: f.flag(&["mamba_conv_bias", "use_conv_bias"], true)?,
            mamba_proj_bias: f.flag(&["mamba_proj_bias"], false)?,
            time_step_limit: limit,
            mamba_ssm_cache_dtype: state_dtype(&f)?,
            num_attention_heads,
            num_key_value_heads: f.size(&["num_key_value_heads"], 8, 1)?,
            head_dim: f.size(
                &["head_dim", "attention_head_dim"],
                if json.get("hidden_size").is_some() {
                    (hidden_size / num_attention_heads).max(1)
                } else {
                    128
                },
                1,
            )?,
            attention_bias: f.flag(&["attention_bias"], false)?,
            sliding_window: f.optional_size("sliding_window")?,
            kv_cache_fp8: false,
            intermediate_size: f.size(&["intermediate_size"], 21_504, 1)?,
            mlp_bias: f.flag(&["mlp_bias"], false)?,
            n_routed_experts: f.size(&["n_routed_experts"], 8, 0)?,
            n_shared_experts: f.size(&["n_shared_experts"], 1, 0)?,
            num_experts_per_tok: f.size(&["num_experts_per_tok"], 2, 0)?,
            n_group: f.size(&["n_group"], 1, 1)?,
            topk_group: f.size(&["topk_group"], 1, 1)?,
            norm_topk_prob: f.flag(&["norm_topk_prob"], true)?,
            routed_scaling_factor: f.number(&["routed_scaling_factor"], 1.0)? as f32,
            moe_intermediate_size: f.size(&["moe_intermediate_size"], 7688, 1)?,
            moe_shared_expert_intermediate_size: f.size(&["moe_shared_expert_intermediate_size"], 7688, 1)?,
            moe_latent_size: f.optional_size("moe_latent_size")?,
            num_nextn_predict_layers: f.size(&["num_nextn_predict_layers"], 0, 0)?,
            bos_token_id: f.token("bos_token_id")?,
            eos_token_id: f.tokens("eos_token_id")?,
            pad_token_id: f.token("pad_token_id")?,
        };
        config.check(&f)?;
        Ok(config)
    }

    /// Relations between fields, as far as the layers use them.
    fn check(&self, f: &Fields<'_>) -> Result<()> {
        let refuse =
            |field: &str, got: usize, expected: String| Err(Error::field(f.path, field, got, expected));
        if !(self.layer_norm_epsilon.is_finite() && self.layer_norm_epsilon >= 0.0) {
            let got = self.layer_norm_epsilon;
            return Err(Error::field(f.path, "layer_norm_epsilon", got, "a finite number, at least 0"));
        }
        if !self.routed_scaling_factor.is_finite() {
            let got = self.routed_scaling_factor;
            return Err(Error::field(f.path, "routed_scaling_factor", got, "a finite number"));
        }
        if self.has(LayerKind::Mamba) {
            if !self.mamba_num_heads.is_multiple_of(self.n_groups) {
                let expected = format!("a divisor of mamba_num_heads = {}", self.mamba_num_heads);
                return refuse("n_groups", self.n_groups, expected);
            }
            if self.conv_kernel > 32 {
                return refuse("conv_kernel", self.conv_kernel, "1 to 32".into());
            }
            if !self.chunk_size.is_power_of_two() || !(16..=256).contains(&self.chunk_size) {
                return refuse("chunk_size", self.chunk_size, "a power of two, 16 to 256".into());
            }
        }
        if self.has(LayerKind::Attention) {
            if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
                let expected = format!("a divisor of num_attention_heads = {}", self.num_attention_heads);
                return refuse("num_key_value_heads", self.num_key_value_heads, expected);
            }
            if !self.head_dim.is_multiple_of(8) || self.head_dim > 256 {
                return refuse("head_dim", self.head_dim, "a multiple of 8, at most 256".into());
            }
        }
        if self.has(LayerKind::Moe) {
            let experts = self.n_routed_experts;
            if experts == 0 || !experts.is_multiple_of(self.n_group) {
                return refuse("n_group", self.n_group, format!("a divisor of n_routed_experts = {experts}"));
            }
            if self.topk_group > self.n_group {
                return refuse("topk_group", self.topk_group, format!("at most n_group = {}", self.n_group));
            }
            let within = experts / self.n_group * self.topk_group;
            if !(1..=within).contains(&self.num_experts_per_tok) {
                return refuse("num_experts_per_tok", self.num_experts_per_tok, format!("1 to {within}"));
            }
        }
        Ok(())
    }

    /// Whether any layer is of this kind.
    pub fn has(&self, kind: LayerKind) -> bool {
        self.layers.contains(&kind)
    }

    /// Width of the Mamba mixer: heads times head_dim (not `expand` times the hidden size).
    pub fn d_inner(&self) -> usize {
        self.mamba_num_heads * self.mamba_head_dim
    }

    /// Channels of the conv: `x`, `B` and `C`.
    pub fn conv_dim(&self) -> usize {
        self.d_inner() + 2 * self.n_groups * self.ssm_state_size
    }

    /// Outputs of the Mamba input projection: `z`, `x`, `B`, `C` and `dt`.
    pub fn in_proj_dim(&self) -> usize {
        self.d_inner() + self.conv_dim() + self.mamba_num_heads
    }

    /// Outputs of the query projection.
    pub fn q_dim(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Outputs of the key and of the value projection.
    pub fn kv_dim(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
}

/// An activation or model type that is named must be the one that is implemented.
fn check_text(f: &Fields<'_>, name: &'static str, expected: &str) -> Result<()> {
    match f.text(&[name])? {
        Some(got) if got != expected => Err(Error::field(f.path, name, format!("{got:?}"), expected)),
        _ => Ok(()),
    }
}

/// `time_step_limit`, or its legacy name: bounds of `dt`. `time_step_min` is for initialisation and bounds nothing.
fn time_step_limit(f: &Fields<'_>) -> Result<(f32, f32)> {
    let Some((name, got)) = f.find(&["mamba_dt_limit", "time_step_limit"]) else {
        return Ok((0.0, f32::INFINITY));
    };
    let bounds = match got {
        Json::List(list) => list.iter().map(Json::number).collect::<Option<Vec<f64>>>(),
        _ => None,
    };
    match bounds.as_deref() {
        Some([low, high]) if low <= high => Ok((*low as f32, *high as f32)),
        _ => Err(f.error(name, got, "a lower and an upper bound")),
    }
}

fn state_dtype(f: &Fields<'_>) -> Result<StateDtype> {
    match f.text(&["mamba_ssm_cache_dtype"])? {
        None | Some("float32" | "auto") => Ok(StateDtype::F32),
        Some("bfloat16") => Ok(StateDtype::Bf16),
        Some(got) => {
            let expected = "float32 or bfloat16";
            Err(Error::field(f.path, "mamba_ssm_cache_dtype", format!("{got:?}"), expected))
        }
    }
}

/// What `generation_config.json` suggests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationConfig {
    /// Ids that end the output.
    pub eos_token_id: Vec<u32>,
    /// Whether to sample at all.
    pub do_sample: bool,
    /// Temperature.
    pub temperature: Option<f32>,
    /// Keeps the best so many.
    pub top_k: Option<u32>,
    /// Nucleus.
    pub top_p: Option<f32>,
}

impl GenerationConfig {
    /// Reads the file in `dir`; without one nothing is suggested.
    pub fn load(dir: &Path) -> Result<GenerationConfig> {
        let path = dir.join("generation_config.json");
        if !path.exists() {
            return Ok(GenerationConfig::default());
        }
        let json = Json::read(&path)?;
        let f = Fields { json: &json, path: &path };
        let number = |name| -> Result<Option<f32>> {
            Ok(match f.find(&[name]) {
                Some(_) => Some(f.number(&[name], 0.0)? as f32),
                None => None,
            })
        };
        Ok(GenerationConfig {
            eos_token_id: f.tokens("eos_token_id")?,
            do_sample: f.flag(&["do_sample"], false)?,
            temperature: number("temperature")?,
            top_k: f.optional_size("top_k")?.map(|k| k as u32),
            top_p: number("top_p")?,
        })
    }
}
