//! Which precision each module of a checkpoint has: `hf_quant_config.json` and `quantization_config`.
//!
//! Both are ModelOpt's. Modules resolve in vLLM's order (`modelopt.py`, `_resolve_quant_algo`): exclusions, the
//! module's own name, names inside it, the group of experts it is in. An algorithm that is not known is an error.

use std::path::Path;

use crate::config::json::Json;
use crate::error::{Error, Result};

mod pattern;
mod rules;

use rules::Rules;

/// Precision of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub enum Algo {
    /// Not quantised: bf16.
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
    /// By ModelOpt's name, in either case.
    fn parse(name: &str) -> Option<Algo> {
        match name.to_ascii_uppercase().as_str() {
            "FP8" | "FP8_PER_CHANNEL_PER_TOKEN" => Some(Algo::Fp8),
            "NVFP4" => Some(Algo::Nvfp4),
            "W4A16_NVFP4" | "NVFP4_W4A16" => Some(Algo::W4a16Nvfp4),
            _ => None,
        }
    }
}

/// The rules of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuantConfig {
    /// From each file that has any.
    rules: Vec<Rules>,
    /// Whether keys and values are cached in FP8.
    pub kv_cache_fp8: bool,
}

impl QuantConfig {
    /// Reads the rules in `dir`: `hf_quant_config.json` and `quantization_config` of `config.json`. Without either
    /// nothing is quantised; where both are there they must agree on every module that is asked for, and keys and
    /// values are cached in FP8 if either says so.
    pub fn load(dir: &Path) -> Result<QuantConfig> {
        let mut config = QuantConfig::default();
        let path = dir.join("hf_quant_config.json");
        if path.exists() {
            config.add(&Json::read(&path)?, &path)?;
        }
        let path = dir.join("config.json");
        if let Some(json) = Json::read(&path)?.get("quantization_config") {
            config.add(json, &path)?;
        }
        Ok(config)
    }

    /// Reads the text of an `hf_quant_config.json`, or of a `quantization_config`; `origin` names it in errors.
    pub fn from_json(text: &str, origin: &Path) -> Result<QuantConfig> {
        let mut config = QuantConfig::default();
        config.add(&Json::parse(text, origin)?, origin)?;
        Ok(config)
    }

    /// Adds the rules of a file.
    pub(crate) fn add(&mut self, json: &Json, path: &Path) -> Result<()> {
        // The two files differ by this level; neither is sure to have a `quant_method`.
        let json = json.get("quantization").unwrap_or(json);
        let rules = Rules::read(json, path)?;
        self.kv_cache_fp8 |= rules.kv_cache_fp8;
        self.rules.push(rules);
        Ok(())
    }

    /// The precision of a module, named as in the checkpoint without `.weight`; the model's prefix does not matter.
    ///
    /// # Errors
    /// The rules of two files that differ for this module; a rule for a group whose members differ.
    pub fn resolve(&self, module: &str) -> Result<Algo> {
        let Some((first, others)) = self.rules.split_first() else { return Ok(Algo::None) };
        let algo = first.resolve(module)?;
        for other in others {
            let got = other.resolve(module)?;
            if got != algo {
                let expected = format!("{algo:?}, as {} says", first.path.display());
                return Err(Error::field(&other.path, module, format!("{got:?}"), expected));
            }
        }
        Ok(algo)
    }
}
