//! What a checkpoint is made of, from its configuration and the headers of its files: no weight is read.
//!
//! Bytes read for one token at batch 1 bound its speed: every weight once, of the routed experts those that are
//! chosen, of the embeddings one row, the recurrent state read and written. Keys and values come on top by context.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::Dtype;
use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::config::{Config, LayerKind, StateDtype};
use crate::error::Result;
use crate::quant::QuantConfig;
use crate::weights::is_prediction;

/// A checkpoint's parts and what they cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Embeddings, layers in order, final norm and head.
    pub blocks: Vec<Block>,
    /// By precision, by name of the precision.
    pub precisions: BTreeMap<String, Total>,
    /// Of everything that the model uses.
    pub total: Total,
    /// Tensors of multi-token prediction, which are not used yet.
    pub unused: Total,
    /// Bytes of weights and state that one token moves at batch 1.
    pub token: TokenBytes,
    /// Bytes of keys and values that one token adds, in all attention layers.
    pub kv_bytes_per_token: u64,
    /// Bytes of SSM and conv state of one sequence, in all Mamba layers.
    pub state_bytes_per_sequence: u64,
}

/// Numbers of tensors, weights and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// Tensors in the files, scales included.
    pub tensors: u64,
    /// Weights, scales not counted.
    pub parameters: u64,
    /// Bytes in the files, scales included.
    pub bytes: u64,
}

/// A layer, or one of the blocks around them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Block {
    /// Number of the layer, if it is one.
    pub layer: Option<usize>,
    /// `mamba`, `attention`, `moe`, `mlp`, or the block's name.
    pub kind: String,
    /// Its modules.
    pub modules: Vec<Module>,
    /// All of it.
    pub total: Total,
    /// Bytes of weights that one token reads at batch 1.
    pub bytes_per_token: u64,
}

/// A module, or all routed experts' modules of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Module {
    /// Name within the block; `experts.*` stands for every expert.
    pub name: String,
    /// `BF16`, `F32`, `FP8`, `NVFP4` or `W4A16_NVFP4`.
    pub precision: String,
    /// Shape of one, in weights: two to a byte in NVFP4.
    pub shape: Vec<usize>,
    /// How many there are.
    pub count: u64,
    /// All of them.
    pub total: Total,
}

/// Bytes that one token moves at batch 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TokenBytes {
    /// Mamba layers.
    pub mamba: u64,
    /// Attention layers, without keys and values.
    pub attention: u64,
    /// The routed experts that are chosen.
    pub routed_experts: u64,
    /// The rest of the mixture layers: router, shared expert, latent projections.
    pub moe_other: u64,
    /// Dense feed-forward layers.
    pub mlp: u64,
    /// The head.
    pub lm_head: u64,
    /// A row of the embeddings and the final norm.
    pub other: u64,
    /// Recurrent state, read and written.
    pub state: u64,
    /// All of these.
    pub total: u64,
}

impl Report {
    /// Reads `config.json`, the rules of precision and the headers in `dir`.
    ///
    /// # Errors
    /// What is not well formed. Whether every tensor is there and has the right shape is for
    /// [`Weights::load`](crate::weights::Weights::load) to say.
    pub fn read(dir: &Path) -> Result<Report> {
        let (config, quant) = (Config::load(dir)?, QuantConfig::load(dir)?);
        let checkpoint = Checkpoint::open(dir, is_prediction, &|_, _| ())?;
        let mut blocks: BTreeMap<Place, BTreeMap<String, Module>> = BTreeMap::new();
        let mut unused = Total::default();
        for (name, entry) in checkpoint.tensors() {
            let bytes = entry.span.len() as u64;
            if is_prediction(name) {
                unused.add(Total { tensors: 1, parameters: elements(&entry.shape), bytes });
                continue;
            }
            let (full, leaf) = name.rsplit_once('.').unwrap_or(("", name));
            let (place, module) = place(full, leaf);
            let modules = blocks.entry(place).or_default();
            let module = modules.entry(module.clone()).or_insert_with(|| Module::new(module));
            module.total.add(Total { tensors: 1, parameters: 0, bytes });
            if !is_scale(leaf) {
                let (precision, shape) = stored(&quant, full, entry.dtype, &entry.shape)?;
                module.count += u64::from(leaf != "bias");
                module.total.add(Total { parameters: elements(&shape), ..Total::default() });
                // A bias does not hide its module's weight.
                if leaf != "bias" || module.shape.is_empty() {
                    (module.precision, module.shape) = (precision, shape);
                }
            }
        }
        Ok(Report::new(&config, blocks, unused))
    }

    fn new(config: &Config, places: BTreeMap<Place, BTreeMap<String, Module>>, unused: Total) -> Report {
        let blocks: Vec<Block> =
            places.into_iter().map(|(place, parts)| block(config, place, parts)).collect();
        let (mut precisions, mut total, mut token) =
            (BTreeMap::new(), Total::default(), TokenBytes::default());
        for block in &blocks {
            total.add(block.total);
            for module in &block.modules {
                let sum: &mut Total = precisions.entry(module.precision.clone()).or_default();
                sum.add(module.total);
            }
            token.add(block, config);
        }
        let state_bytes_per_sequence = state_bytes(config);
        token.state = state_bytes_per_sequence.saturating_mul(2);
        token.total = token.total.saturating_add(token.state);
        let kv_bytes_per_token = kv_bytes(config);
        Report { blocks, precisions, total, unused, token, kv_bytes_per_token, state_bytes_per_sequence }
    }

    /// Tokens a second at batch 1 that a bandwidth of `gb_per_second` (10⁹ bytes) allows after `context` tokens.
    pub fn roofline(&self, gb_per_second: f64, context: u64) -> f64 {
        let cache = context.saturating_mul(self.kv_bytes_per_token);
        gb_per_second * 1e9 / self.token.total.saturating_add(cache) as f64
    }
}

/// Where a tensor is; blocks are listed in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Embeddings,
    Layer(usize),
    Norm,
    Head,
    Other(String),
}

/// Place and name of a module: experts are not told apart.
fn place(full: &str, leaf: &str) -> (Place, String) {
    let bare = ["backbone.", "model."].iter().find_map(|p| full.strip_prefix(p)).unwrap_or(full);
    if let Some(rest) = bare.strip_prefix("layers.") {
        let (number, module) = rest.split_once('.').unwrap_or((rest, ""));
        if let Ok(layer) = number.parse() {
            let mut parts: Vec<&str> = module.split('.').filter(|part| *part != "mixer").collect();
            // The layer's own norm keeps its name; a Mamba mixer has another.
            if module == "mixer.norm" {
                parts = vec!["gated_norm"];
            }
            if parts.first() == Some(&"experts") && parts.len() > 1 {
                parts[1] = "*";
            }
            let loose = ["A_log", "D", "dt_bias", "up_proj", "down_proj", "e_score_correction_bias"];
            if loose.contains(&leaf) {
                parts.push(leaf);
            }
            return (Place::Layer(layer), parts.join("."));
        }
    }
    let place = match bare {
        "embeddings" | "embed_tokens" => Place::Embeddings,
        "norm_f" | "norm" => Place::Norm,
        "lm_head" => Place::Head,
        other => Place::Other(other.into()),
    };
    (place, bare.into())
}

/// Whether a tensor holds scales of another.
fn is_scale(leaf: &str) -> bool {
    matches!(leaf, "weight_scale" | "weight_scale_2" | "input_scale" | "k_scale" | "v_scale")
}

/// Precision and shape in weights of a stored tensor.
fn stored(quant: &QuantConfig, module: &str, dtype: Dtype, shape: &[usize]) -> Result<(String, Vec<usize>)> {
    let mut shape = shape.to_vec();
    let precision = match dtype {
        Dtype::U8 => {
            if let Some(last) = shape.last_mut() {
                *last = last.saturating_mul(2);
            }
            match quant.resolve(module)? {
                crate::quant::Algo::W4a16Nvfp4 => "W4A16_NVFP4".into(),
                _ => "NVFP4".into(),
            }
        }
        Dtype::F8_E4M3 => "FP8".into(),
        other => other.to_string(),
    };
    Ok((precision, shape))
}

fn elements(shape: &[usize]) -> u64 {
    shape.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64))
}

fn block(config: &Config, place: Place, modules: BTreeMap<String, Module>) -> Block {
    let (layer, kind) = match place {
        Place::Layer(i) => (Some(i), config.layers.get(i).map_or("surplus", LayerKind::name).into()),
        Place::Embeddings => (None, "embeddings".into()),
        Place::Norm => (None, "norm".into()),
        Place::Head => (None, "lm_head".into()),
        Place::Other(name) => (None, name),
    };
    let modules: Vec<Module> = modules.into_values().collect();
    let mut total = Total::default();
    modules.iter().for_each(|module| total.add(module.total));
    let bytes_per_token = match &kind[..] {
        "embeddings" => total.bytes / config.vocab_size as u64,
        _ => sum(modules.iter().map(|module| module.bytes_per_token(config))),
    };
    Block { layer, kind, modules, total, bytes_per_token }
}

impl Module {
    fn new(name: String) -> Module {
        Module { name, precision: String::new(), shape: Vec::new(), count: 0, total: Total::default() }
    }

    fn is_routed(&self) -> bool {
        self.name.starts_with("experts.")
    }

    /// Of the routed experts, those that are chosen.
    fn bytes_per_token(&self, config: &Config) -> u64 {
        if !self.is_routed() {
            return self.total.bytes;
        }
        let (chosen, all) = (config.num_experts_per_tok as u128, config.n_routed_experts.max(1) as u128);
        (u128::from(self.total.bytes) * chosen / all) as u64
    }
}

impl Total {
    fn add(&mut self, other: Total) {
        self.tensors += other.tensors;
        self.parameters = self.parameters.saturating_add(other.parameters);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl TokenBytes {
    fn add(&mut self, block: &Block, config: &Config) {
        let routed = block.modules.iter().filter(|module| module.is_routed());
        let routed = sum(routed.map(|module| module.bytes_per_token(config)));
        let rest = match &block.kind[..] {
            "mamba" => &mut self.mamba,
            "attention" => &mut self.attention,
            "moe" => &mut self.moe_other,
            "mlp" => &mut self.mlp,
            "lm_head" => &mut self.lm_head,
            _ => &mut self.other,
        };
        *rest = rest.saturating_add(block.bytes_per_token.saturating_sub(routed));
        self.routed_experts = self.routed_experts.saturating_add(routed);
        self.total = self.total.saturating_add(block.bytes_per_token);
    }
}

/// Sizes of hostile files may exceed 64 bits together.
fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

fn layers(config: &Config, kind: LayerKind) -> u64 {
    config.layers.iter().filter(|layer| **layer == kind).count() as u64
}

fn kv_bytes(config: &Config) -> u64 {
    let element = if config.kv_cache_fp8 { 1 } else { 2 };
    layers(config, LayerKind::Attention).saturating_mul(2 * element * config.kv_dim() as u64)
}

/// SSM state in its type, and the conv's last inputs in bf16.
fn state_bytes(config: &Config) -> u64 {
    let element = match config.mamba_ssm_cache_dtype {
        StateDtype::F32 => 4,
        StateDtype::Bf16 => 2,
    };
    let ssm = (config.d_inner() as u64).saturating_mul(config.ssm_state_size as u64 * element);
    let conv = (config.conv_dim() as u64).saturating_mul(2 * (config.conv_kernel as u64 - 1));
    layers(config, LayerKind::Mamba).saturating_mul(ssm.saturating_add(conv))
}
