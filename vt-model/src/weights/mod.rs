//! The weights of a model, as the checkpoint has them.

use std::path::Path;

use half::bf16;
use vt_kernels::Element;
use vt_kernels::format::{E4m3, Nvfp4};

use crate::config::Config;
use crate::error::Result;

mod layers;
mod linear;

/// All weights of a model; `L` and `P` are a backend's linear layers and parameters, by default those in host memory.
#[derive(Clone, Debug)]
pub struct Weights<L = Linear, P = Param> {
    /// The configuration.
    pub config: Config,
    /// `[vocab_size, hidden_size]`.
    pub embeddings: P,
    /// In order.
    pub layers: Vec<Layer<L, P>>,
    /// The final norm, `[hidden_size]`.
    pub norm: P,
    /// `[vocab_size, hidden_size]`; a copy of the embeddings where they are tied.
    pub lm_head: L,
    /// Tensors that are known and not used yet: multi-token prediction.
    pub unused: Vec<String>,
}

/// A layer: a norm and a mixer.
#[derive(Clone, Debug)]
pub struct Layer<L = Linear, P = Param> {
    /// `[hidden_size]`.
    pub norm: P,
    /// What it mixes with.
    pub mixer: Mixer<L, P>,
}

/// The mixer of a layer.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // One a layer.
pub enum Mixer<L = Linear, P = Param> {
    /// Mamba2.
    Mamba(Mamba<L, P>),
    /// Attention.
    Attention(Attention<L>),
    /// Mixture of experts.
    Moe(Moe<L, P>),
    /// Dense feed-forward.
    Mlp(Expert<L>),
}

/// Weights of a Mamba2 mixer.
#[derive(Clone, Debug)]
pub struct Mamba<L = Linear, P = Param> {
    /// `[in_proj_dim, hidden_size]`: `z | x | B | C | dt`.
    pub in_proj: L,
    /// `[conv_dim, conv_kernel]` bf16.
    pub conv_weight: P,
    /// `[conv_dim]` bf16.
    pub conv_bias: Option<P>,
    /// `A = −exp(A_log)`, `[mamba_num_heads]` f32.
    pub a: P,
    /// `[mamba_num_heads]` f32.
    pub d: P,
    /// `[mamba_num_heads]` f32.
    pub dt_bias: P,
    /// `[d_inner]`.
    pub norm: P,
    /// `[hidden_size, d_inner]`.
    pub out_proj: L,
}

/// Weights of an attention mixer.
#[derive(Clone, Debug)]
pub struct Attention<L = Linear> {
    /// `[q_dim, hidden_size]`.
    pub q_proj: L,
    /// `[kv_dim, hidden_size]`.
    pub k_proj: L,
    /// `[kv_dim, hidden_size]`.
    pub v_proj: L,
    /// `[hidden_size, q_dim]`.
    pub o_proj: L,
    /// Scale of FP8 keys.
    pub k_scale: Option<f32>,
    /// Scale of FP8 values.
    pub v_scale: Option<f32>,
}

/// Weights of a mixture of experts.
#[derive(Clone, Debug)]
pub struct Moe<L = Linear, P = Param> {
    /// The router, `[n_routed_experts, hidden_size]`.
    pub gate: P,
    /// `[n_routed_experts]` f32.
    pub correction_bias: Option<P>,
    /// Routed experts.
    pub experts: Vec<Expert<L>>,
    /// The shared expert.
    pub shared: Option<Expert<L>>,
    /// Projections around the routed experts.
    pub latent: Option<Latent<L>>,
}

/// A feed-forward of two linear layers.
#[derive(Clone, Debug)]
pub struct Expert<L = Linear> {
    /// `[intermediate, features]`.
    pub up: L,
    /// `[features, intermediate]`.
    pub down: L,
}

/// Projections of LatentMoE.
#[derive(Clone, Debug)]
pub struct Latent<L = Linear> {
    /// `[moe_latent_size, hidden_size]`.
    pub down: L,
    /// `[hidden_size, moe_latent_size]`.
    pub up: L,
}

/// A parameter `[rows, cols]` that is not a linear layer; a vector has one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// bf16.
    Bf16 {
        /// Elements, row after row.
        data: Vec<bf16>,
        /// Rows.
        rows: usize,
        /// Elements in a row.
        cols: usize,
    },
    /// f32.
    F32 {
        /// Elements, row after row.
        data: Vec<f32>,
        /// Rows.
        rows: usize,
        /// Elements in a row.
        cols: usize,
    },
}

impl Param {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Param::Bf16 { rows, .. } | Param::F32 { rows, .. } => *rows,
        }
    }

    /// Elements in a row.
    pub fn cols(&self) -> usize {
        match self {
            Param::Bf16 { cols, .. } | Param::F32 { cols, .. } => *cols,
        }
    }

    /// Elements as f32, exactly.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            Param::Bf16 { data, .. } => data.iter().map(|x| Element::to_f32(*x)).collect(),
            Param::F32 { data, .. } => data.clone(),
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Param::Bf16 { data, .. } => data.len() * 2,
            Param::F32 { data, .. } => data.len() * 4,
        }
    }
}

/// A linear layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// `[out_features, in_features]`.
    pub weight: Weight,
    /// `[out_features]`.
    pub bias: Option<Vec<f32>>,
}

/// Scale of an FP8 weight.
#[derive(Clone, Debug, PartialEq)]
pub enum Fp8Scale {
    /// One for all.
    PerTensor(f32),
    /// One for each output.
    PerRow(Vec<f32>),
}

/// The weight of a linear layer in its stored format.
#[derive(Clone, Debug, PartialEq)]
pub enum Weight {
    /// bf16.
    Bf16 {
        /// Elements, row after row.
        data: Vec<bf16>,
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
    },
    /// e4m3.
    Fp8 {
        /// Codes, row after row.
        data: Vec<E4m3>,
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
        /// Multiplies the codes.
        weight_scale: Fp8Scale,
        /// Static scale of the activations.
        input_scale: Option<f32>,
    },
    /// NVFP4.
    Nvfp4 {
        /// Codes and scales.
        weight: Nvfp4,
        /// Global scale of the activations.
        input_scale: Option<f32>,
    },
}

impl Linear {
    /// Outputs.
    pub fn out_features(&self) -> usize {
        match &self.weight {
            Weight::Bf16 { rows, .. } | Weight::Fp8 { rows, .. } => *rows,
            Weight::Nvfp4 { weight, .. } => weight.rows(),
        }
    }

    /// Inputs.
    pub fn in_features(&self) -> usize {
        match &self.weight {
            Weight::Bf16 { cols, .. } | Weight::Fp8 { cols, .. } => *cols,
            Weight::Nvfp4 { weight, .. } => weight.cols(),
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        let weight = match &self.weight {
            Weight::Bf16 { data, .. } => data.len() * 2,
            Weight::Fp8 { data, weight_scale: Fp8Scale::PerTensor(_), .. } => data.len() + 4,
            Weight::Fp8 { data, weight_scale: Fp8Scale::PerRow(scales), .. } => data.len() + 4 * scales.len(),
            Weight::Nvfp4 { weight, .. } => weight.bytes(),
        };
        weight + self.bias.as_ref().map_or(0, |bias| bias.len() * 4)
    }
}

impl Weights {
    /// Reads a Hugging Face folder; `progress` is told bytes read and bytes in all, from several threads.
    ///
    /// # Errors
    /// A file that cannot be read or is not well formed; a tensor that is missing, surplus, of another shape or type,
    /// or whose scale is NaN or negative. The error names file and tensor.
    pub fn load(dir: &Path, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Weights> {
        layers::load(dir, progress)
    }
}

impl<L, P> Weights<L, P> {
    /// Every linear layer with its name.
    pub fn linears(&self) -> Vec<(String, &L)> {
        let mut found = Vec::new();
        for (i, layer) in self.layers.iter().enumerate() {
            let mut add = |name: &str, linear| found.push((format!("layers.{i}.mixer.{name}"), linear));
            match &layer.mixer {
                Mixer::Mamba(m) => {
                    add("in_proj", &m.in_proj);
                    add("out_proj", &m.out_proj);
                }
                Mixer::Attention(a) => {
                    add("q_proj", &a.q_proj);
                    add("k_proj", &a.k_proj);
                    add("v_proj", &a.v_proj);
                    add("o_proj", &a.o_proj);
                }
                Mixer::Mlp(e) => {
                    add("up_proj", &e.up);
                    add("down_proj", &e.down);
                }
                Mixer::Moe(m) => {
                    for (e, expert) in m.experts.iter().enumerate() {
                        add(&format!("experts.{e}.up_proj"), &expert.up);
                        add(&format!("experts.{e}.down_proj"), &expert.down);
                    }
                    if let Some(expert) = &m.shared {
                        add("shared_experts.up_proj", &expert.up);
                        add("shared_experts.down_proj", &expert.down);
                    }
                    if let Some(latent) = &m.latent {
                        add("fc1_latent_proj", &latent.down);
                        add("fc2_latent_proj", &latent.up);
                    }
                }
            }
        }
        found.push(("lm_head".into(), &self.lm_head));
        found
    }
}
