//! Synthetic checkpoints: a folder with configuration, rules of precision and weights, to load or to break first.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};
use serde_json::{Value, json};

/// Precision of the linear layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// bf16.
    Bf16,
    /// All but the head FP8, one scale a tensor.
    Fp8,
    /// All but the head NVFP4 with activations.
    Nvfp4,
    /// Mamba FP8, experts and head weight-only NVFP4, attention bf16, keys and values FP8.
    Mixed,
}

/// A tensor's type, shape and bytes.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

/// A checkpoint in memory.
#[derive(Clone, Debug)]
pub struct Synthetic {
    pub config: Value,
    pub hf_quant: Option<Value>,
    pub tensors: BTreeMap<String, Tensor>,
    precision: Precision,
    layers: Vec<(String, &'static str)>,
    hollow: bool,
}

/// A model of every kind of layer in a few kB.
pub fn tiny() -> Value {
    json!({
        "model_type": "nemotron_h", "hybrid_override_pattern": "MEM*-E", "hidden_size": 32, "vocab_size": 48,
        "mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 64,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "moe_shared_expert_intermediate_size": 48, "routed_scaling_factor": 2.5,
    })
}

impl Synthetic {
    /// The checkpoint of a configuration that has every size it needs.
    pub fn new(config: Value, precision: Precision) -> Synthetic {
        Synthetic::build(config, precision, false)
    }

    /// One without data: only [`Synthetic::write_hollow`] can write it.
    pub fn hollow(config: Value, precision: Precision) -> Synthetic {
        Synthetic::build(config, precision, true)
    }

    fn build(config: Value, precision: Precision, hollow: bool) -> Synthetic {
        let (tensors, layers) = (BTreeMap::new(), Vec::new());
        let mut new = Synthetic { config, hf_quant: None, tensors, precision, layers, hollow };
        let (hidden, vocab) = (new.size("hidden_size"), new.size("vocab_size"));
        new.floats("backbone.embeddings.weight", &[vocab, hidden]);
        new.floats("backbone.norm_f.weight", &[hidden]);
        let head = if precision == Precision::Mixed { "W4A16_NVFP4" } else { "BF16" };
        new.linear("lm_head", vocab, hidden, head);
        let pattern = new.config["hybrid_override_pattern"].as_str().expect("a pattern").to_string();
        for (i, kind) in pattern.chars().enumerate() {
            new.floats(&format!("backbone.layers.{i}.norm.weight"), &[hidden]);
            let mixer = format!("backbone.layers.{i}.mixer");
            match kind {
                'M' => new.mamba(&mixer),
                '*' => new.attention(&mixer),
                'E' => new.moe(&mixer),
                _ => new.expert(&mixer, hidden, new.size("intermediate_size"), new.all()),
            }
        }
        new.hf_quant = new.rules();
        new
    }

    fn size(&self, field: &str) -> usize {
        self.config[field].as_u64().unwrap_or_else(|| panic!("{field}")) as usize
    }

    /// Adds a tensor of bf16: small numbers.
    pub fn floats(&mut self, name: &str, shape: &[usize]) {
        let n: usize = if self.hollow { 0 } else { shape.iter().product() };
        let data = (0..n).flat_map(|i| (0x3c00u16 + (i * 7 % 256) as u16).to_le_bytes()).collect();
        self.put(name, Dtype::BF16, shape, data);
    }

    /// Adds a tensor of f32.
    pub fn scale(&mut self, name: &str, value: f32) {
        self.put(name, Dtype::F32, &[], value.to_le_bytes().to_vec());
    }

    /// Adds or replaces a tensor.
    pub fn put(&mut self, name: &str, dtype: Dtype, shape: &[usize], data: Vec<u8>) {
        self.tensors.insert(name.into(), Tensor { dtype, shape: shape.into(), data });
    }

    fn all(&self) -> &'static str {
        match self.precision {
            Precision::Fp8 => "FP8",
            Precision::Nvfp4 => "NVFP4",
            Precision::Bf16 | Precision::Mixed => "BF16",
        }
    }

    fn or_mixed(&self, mixed: &'static str) -> &'static str {
        if self.precision == Precision::Mixed { mixed } else { self.all() }
    }

    fn linear(&mut self, module: &str, n: usize, k: usize, algo: &'static str) {
        self.layers.push((module.into(), algo));
        let hollow = self.hollow;
        let codes = |n: usize, most: usize| -> Vec<u8> {
            (0..if hollow { 0 } else { n }).map(|i| (i * 5 % most) as u8).collect()
        };
        match algo {
            "BF16" => self.floats(&format!("{module}.weight"), &[n, k]),
            "FP8" => {
                self.put(&format!("{module}.weight"), Dtype::F8_E4M3, &[n, k], codes(n * k, 0x7f));
                self.scale(&format!("{module}.weight_scale"), 0.5);
                self.scale(&format!("{module}.input_scale"), 0.25);
            }
            _ => {
                self.put(&format!("{module}.weight"), Dtype::U8, &[n, k / 2], codes(n * k / 2, 256));
                let scales = codes(n * k / 16, 0x7f);
                self.put(&format!("{module}.weight_scale"), Dtype::F8_E4M3, &[n, k / 16], scales);
                self.scale(&format!("{module}.weight_scale_2"), 0.125);
                if algo == "NVFP4" {
                    self.scale(&format!("{module}.input_scale"), 0.0625);
                }
            }
        }
    }

    fn mamba(&mut self, mixer: &str) {
        let (hidden, heads) = (self.size("hidden_size"), self.size("mamba_num_heads"));
        let inner = heads * self.size("mamba_head_dim");
        let conv = inner + 2 * self.size("n_groups") * self.size("ssm_state_size");
        let algo = self.or_mixed("FP8");
        self.linear(&format!("{mixer}.in_proj"), inner + conv + heads, hidden, algo);
        self.linear(&format!("{mixer}.out_proj"), hidden, inner, algo);
        self.floats(&format!("{mixer}.conv1d.weight"), &[conv, 1, self.size("conv_kernel")]);
        self.floats(&format!("{mixer}.conv1d.bias"), &[conv]);
        for name in ["A_log", "D", "dt_bias"] {
            self.floats(&format!("{mixer}.{name}"), &[heads]);
        }
        self.floats(&format!("{mixer}.norm.weight"), &[inner]);
    }

    fn attention(&mut self, mixer: &str) {
        let (hidden, head_dim) = (self.size("hidden_size"), self.size("head_dim"));
        let q = self.size("num_attention_heads") * head_dim;
        let kv = self.size("num_key_value_heads") * head_dim;
        for (name, n, k) in [("q", q, hidden), ("k", kv, hidden), ("v", kv, hidden), ("o", hidden, q)] {
            self.linear(&format!("{mixer}.{name}_proj"), n, k, self.all());
        }
        if self.precision == Precision::Mixed {
            self.scale(&format!("{mixer}.k_proj.k_scale"), 0.75);
            self.scale(&format!("{mixer}.v_proj.v_scale"), 0.875);
        }
    }

    fn expert(&mut self, name: &str, features: usize, inner: usize, algo: &'static str) {
        self.linear(&format!("{name}.up_proj"), inner, features, algo);
        self.linear(&format!("{name}.down_proj"), features, inner, algo);
    }

    fn moe(&mut self, mixer: &str) {
        let (hidden, experts) = (self.size("hidden_size"), self.size("n_routed_experts"));
        let features = self.config["moe_latent_size"].as_u64().map_or(hidden, |size| size as usize);
        let algo = self.or_mixed("W4A16_NVFP4");
        self.floats(&format!("{mixer}.gate.weight"), &[experts, hidden]);
        let zeros = vec![0; experts * 4];
        self.put(&format!("{mixer}.gate.e_score_correction_bias"), Dtype::F32, &[experts], zeros);
        for e in 0..experts {
            let inner = self.size("moe_intermediate_size");
            self.expert(&format!("{mixer}.experts.{e}"), features, inner, algo);
        }
        let inner = self.size("moe_shared_expert_intermediate_size");
        self.expert(&format!("{mixer}.shared_experts"), hidden, inner, algo);
        if features != hidden {
            self.linear(&format!("{mixer}.fc1_latent_proj"), features, hidden, self.all());
            self.linear(&format!("{mixer}.fc2_latent_proj"), hidden, features, self.all());
        }
    }

    /// An `hf_quant_config.json`.
    fn rules(&self) -> Option<Value> {
        let plain = self.layers.iter().filter(|(_, algo)| *algo == "BF16").map(|(name, _)| name);
        let quantization = match self.precision {
            Precision::Bf16 => return None,
            Precision::Fp8 | Precision::Nvfp4 => json!({
                "quant_algo": self.all(), "kv_cache_quant_algo": null, "exclude_modules": plain.collect::<Vec<_>>(),
            }),
            Precision::Mixed => {
                let quantised = self.layers.iter().filter(|(_, algo)| *algo != "BF16");
                let layers = quantised.map(|(name, algo)| (name.clone(), json!({ "quant_algo": algo })));
                let layers: serde_json::Map<String, Value> = layers.collect();
                json!({
                    "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "quantized_layers": layers,
                })
            }
        };
        Some(json!({ "producer": { "name": "modelopt", "version": "0.47.0" }, "quantization": quantization }))
    }

    /// Writes the folder with one `model.safetensors`.
    pub fn write(&self, dir: &Path) {
        self.write_configs(dir);
        self.write_file(&dir.join("model.safetensors"), |_| true);
    }

    /// Writes the folder with shards and their index: tensor `i` goes to shard `i` modulo their number.
    pub fn write_sharded(&self, dir: &Path, shards: usize) {
        self.write_configs(dir);
        let file = |shard: usize| format!("model-{:05}-of-{shards:05}.safetensors", shard + 1);
        for shard in 0..shards {
            self.write_file(&dir.join(file(shard)), |i| i % shards == shard);
        }
        let map = self.tensors.keys().enumerate().map(|(i, name)| (name.clone(), json!(file(i % shards))));
        let index = json!({ "metadata": {}, "weight_map": map.collect::<serde_json::Map<_, _>>() });
        std::fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
    }

    /// Writes the folder with one file that has a header and a hole.
    pub fn write_hollow(&self, dir: &Path) {
        self.write_configs(dir);
        let (mut header, mut end) = (serde_json::Map::new(), 0);
        for (name, tensor) in &self.tensors {
            let bytes = tensor.shape.iter().product::<usize>() * tensor.dtype.bitsize() / 8;
            let entry =
                json!({ "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [end, end + bytes] });
            header.insert(name.clone(), entry);
            end += bytes;
        }
        let header = Value::from(header).to_string();
        let path = dir.join("model.safetensors");
        std::fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat())
            .unwrap();
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len((8 + header.len() + end) as u64).unwrap();
    }

    fn write_configs(&self, dir: &Path) {
        std::fs::write(dir.join("config.json"), self.config.to_string()).unwrap();
        if let Some(rules) = &self.hf_quant {
            std::fs::write(dir.join("hf_quant_config.json"), rules.to_string()).unwrap();
        }
    }

    fn write_file(&self, path: &Path, chosen: impl Fn(usize) -> bool) {
        let chosen = self.tensors.iter().enumerate().filter(|(i, _)| chosen(*i)).map(|(_, tensor)| tensor);
        let view = |t| -> TensorView<'_> {
            let t: &Tensor = t;
            TensorView::new(t.dtype, t.shape.clone(), &t.data).unwrap()
        };
        serialize_to_file(chosen.map(|(name, tensor)| (name, view(tensor))), None, path).unwrap();
    }
}
