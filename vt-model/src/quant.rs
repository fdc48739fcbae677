//! Which precision each module of a checkpoint has: `hf_quant_config.json` and `quantization_config`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::json::Json;
use crate::error::{Error, Result};

/// What ModelOpt 0.47 appends to module names.
const SENTINEL: &str = ".\u{0}backbone.pt_name_sentinel";

/// Precision of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Algo {
    /// bf16.
    #[serde(rename = "BF16")]
    None,
    /// e4m3 weights and activations.
    #[serde(rename = "FP8")]
    Fp8,
    /// NVFP4 weights and activations.
    #[serde(rename = "NVFP4")]
    Nvfp4,
    /// NVFP4 weights, bf16 activations.
    #[serde(rename = "W4A16_NVFP4")]
    W4a16Nvfp4,
}

impl Algo {
    fn parse(name: &str) -> Option<Algo> {
        match name {
            "FP8" | "FP8_PER_CHANNEL_PER_TOKEN" => Some(Algo::Fp8),
            "NVFP4" => Some(Algo::Nvfp4),
            "W4A16_NVFP4" | "NVFP4_W4A16" => Some(Algo::W4a16Nvfp4),
            _ => None,
        }
    }
}

/// The rules of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantConfig {
    path: PathBuf,
    /// Of every module that is not excluded; nothing means that `layers` alone decides.
    algo: Option<Algo>,
    excluded: Vec<String>,
    layers: BTreeMap<String, Algo>,
    /// Whether keys and values are cached in FP8.
    pub kv_cache_fp8: bool,
}

impl QuantConfig {
    /// Reads the rules in `dir`: `hf_quant_config.json` if there is one, else `quantization_config` of
    /// `config.json`; without either nothing is quantised. If both are there they must agree on the algorithm.
    pub fn load(dir: &Path) -> Result<QuantConfig> {
        let config_path = dir.join("config.json");
        let config = Json::read(&config_path)?;
        let inner = match config.get("quantization_config") {
            Some(json) => Some(QuantConfig::from_value(json, &config_path)?),
            None => None,
        };
        let path = dir.join("hf_quant_config.json");
        if !path.exists() {
            return Ok(inner.unwrap_or_else(|| QuantConfig::none(&config_path)));
        }
        let mut outer = QuantConfig::from_value(&Json::read(&path)?, &path)?;
        if let Some(inner) = inner {
            if inner.algo != outer.algo {
                let got = format!("{:?}", outer.algo);
                let expected = format!("{:?} as in config.json", inner.algo);
                return Err(Error::field(&path, "quant_algo", got, expected));
            }
            outer.kv_cache_fp8 |= inner.kv_cache_fp8;
        }
        Ok(outer)
    }

    /// Reads the text of either file; `origin` names it in errors.
    pub fn from_json(text: &str, origin: &Path) -> Result<QuantConfig> {
        QuantConfig::from_value(&Json::parse(text, origin)?, origin)
    }

    fn none(path: &Path) -> QuantConfig {
        QuantConfig {
            path: path.into(),
            algo: Some(Algo::None),
            excluded: Vec::new(),
            layers: BTreeMap::new(),
            kv_cache_fp8: false,
        }
    }

    fn from_value(json: &Json, path: &Path) -> Result<QuantConfig> {
        let json = json.get("quantization").unwrap_or(json);
        if !matches!(json, Json::Map(_)) {
            return Err(Error::field(path, "quantization", json, "a map"));
        }
        if let Some(method) = json.get("quant_method").filter(|m| m.text() != Some("modelopt")) {
            return Err(Error::field(path, "quant_method", method, "modelopt"));
        }
        let mut config = QuantConfig::none(path);
        config.algo = match json.get("quant_algo") {
            None => Some(Algo::None),
            Some(name) if name.text() == Some("MIXED_PRECISION") => None,
            Some(name) => Some(algo(path, "quant_algo", name)?),
        };
        for field in ["exclude_modules", "ignore"] {
            config.excluded.extend(names(path, field, json.get(field))?);
        }
        if let Some(layers) = json.get("quantized_layers") {
            let Json::Map(layers) = layers else {
                return Err(Error::field(path, "quantized_layers", layers, "a map"));
            };
            for (name, rule) in layers {
                let named = rule.get("quant_algo").unwrap_or(&Json::Null);
                config
                    .layers
                    .insert(plain(name), algo(path, &format!("quantized_layers.{}", plain(name)), named)?);
            }
        }
        if config.algo.is_none() && config.layers.is_empty() {
            return Err(Error::field(path, "quantized_layers", "nothing", "the layers of MIXED_PRECISION"));
        }
        check_group_size(path, json)?;
        config.kv_cache_fp8 = kv_cache_fp8(path, json)?;
        Ok(config)
    }

    /// The precision of a module, named as in the checkpoint without `.weight`.
    ///
    /// In vLLM's order: excluded names and globs; then the module's own name, any rule inside it, and the rule of
    /// its expert group; else the rule for all.
    pub fn resolve(&self, module: &str) -> Result<Algo> {
        let bare = strip(module);
        if self.excluded.iter().any(|pattern| excludes(pattern, bare)) {
            return Ok(Algo::None);
        }
        let Some(algo) = self.algo else { return self.resolve_mixed(bare) };
        Ok(algo)
    }

    fn resolve_mixed(&self, bare: &str) -> Result<Algo> {
        let find = |name: &str| self.layers.iter().find(|(key, _)| strip(key) == name).map(|(_, algo)| *algo);
        if let Some(algo) = find(bare) {
            return Ok(algo);
        }
        let inside = format!("{bare}.");
        let mut rules = self.layers.iter().filter(|(key, _)| strip(key).starts_with(&inside));
        if let Some((_, first)) = rules.next() {
            return match rules.find(|(_, algo)| *algo != first) {
                Some((key, other)) => {
                    let got = format!("{other:?} for {key}");
                    Err(Error::field(
                        &self.path,
                        "quantized_layers",
                        got,
                        format!("{first:?} as its siblings"),
                    ))
                }
                None => Ok(*first),
            };
        }
        match bare.find(".experts") {
            Some(at) => {
                let group = &bare[..at + ".experts".len()];
                Ok(find(group).or_else(|| find(&bare[..at])).unwrap_or(Algo::None))
            }
            None => Ok(Algo::None),
        }
    }
}

fn algo(path: &Path, field: &str, got: &Json) -> Result<Algo> {
    let known = got.text().and_then(Algo::parse);
    known.ok_or_else(|| Error::field(path, field, got, "FP8, NVFP4, W4A16_NVFP4 or MIXED_PRECISION"))
}

fn names(path: &Path, field: &str, got: Option<&Json>) -> Result<Vec<String>> {
    let refuse = |got: &Json| Error::field(path, field, got, "a list of module names");
    match got {
        None => Ok(Vec::new()),
        Some(Json::List(list)) => {
            list.iter().map(|name| name.text().map(plain).ok_or_else(|| refuse(name))).collect()
        }
        Some(got) => Err(refuse(got)),
    }
}

/// A name without what ModelOpt appends.
fn plain(name: &str) -> String {
    name.strip_suffix(SENTINEL).unwrap_or(name).to_string()
}

/// A name without the model's prefix, which differs between producers.
fn strip(name: &str) -> &str {
    ["language_model.model.", "backbone.", "model."]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name)
}

/// Whether a name or glob excludes a module: itself, or one that it is part of.
fn excludes(pattern: &str, module: &str) -> bool {
    let pattern = strip(pattern);
    if pattern.contains('*') {
        return glob(pattern.as_bytes(), module.as_bytes());
    }
    module == pattern || module.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('.'))
}

/// `*` stands for any characters.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut retry) = (0, 0, None);
    while n < name.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            retry = Some((p + 1, n));
            p += 1;
        } else if p < pattern.len() && pattern[p] == name[n] {
            (p, n) = (p + 1, n + 1);
        } else if let Some((after, from)) = retry {
            retry = Some((after, from + 1));
            (p, n) = (after, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// NVFP4 has blocks of 16.
fn check_group_size(path: &Path, json: &Json) -> Result<()> {
    match json.get("group_size") {
        None | Some(Json::Int(16)) => Ok(()),
        Some(got) => Err(Error::field(path, "group_size", got, "16")),
    }
}

fn kv_cache_fp8(path: &Path, json: &Json) -> Result<bool> {
    if let Some(name) = json.get("kv_cache_quant_algo") {
        return match name.text() {
            Some("FP8") => Ok(true),
            Some("NONE" | "none") => Ok(false),
            _ => Err(Error::field(path, "kv_cache_quant_algo", name, "FP8 or null")),
        };
    }
    match json.get("kv_cache_scheme") {
        None => Ok(false),
        Some(scheme) => match (scheme.get("num_bits"), scheme.get("type").and_then(Json::text)) {
            (Some(Json::Int(8)), Some("float")) => Ok(true),
            _ => Err(Error::field(path, "kv_cache_scheme", scheme, "8 bits of type float, or null")),
        },
    }
}
