//! The rules of one file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Algo;
use super::pattern::{Pattern, plain, strip};
use crate::config::json::Json;
use crate::error::{Error, Result};

/// What one file says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) path: PathBuf,
    /// Of every module that is not excluded; nothing if `layers` alone decides.
    algo: Option<Algo>,
    excluded: Vec<Pattern>,
    /// By name without the model's prefix.
    layers: BTreeMap<String, Algo>,
    pub(super) kv_cache_fp8: bool,
}

impl Rules {
    pub(super) fn read(json: &Json, path: &Path) -> Result<Rules> {
        if !matches!(json, Json::Map(_)) {
            return Err(Error::field(path, "quantization", json, "a map"));
        }
        let foreign = |method: &&Json| !method.text().is_some_and(|name| name.starts_with("modelopt"));
        if let Some(method) = json.get("quant_method").filter(foreign) {
            return Err(Error::field(path, "quant_method", method, "modelopt"));
        }
        check_group_size(path, "group_size", json)?;
        let mut rules = Rules {
            path: path.into(),
            algo: None,
            excluded: excluded(path, json)?,
            layers: BTreeMap::new(),
            kv_cache_fp8: kv_cache_fp8(path, json)?,
        };
        match json.get("quant_algo") {
            None => rules.read_groups(json)?,
            Some(name) if name.text() == Some("MIXED_PRECISION") => rules.read_mixed(json)?,
            Some(name) => rules.algo = Some(algo(path, "quant_algo", name)?),
        }
        Ok(rules)
    }

    /// Each layer by name, or failing that the groups.
    fn read_mixed(&mut self, json: &Json) -> Result<()> {
        match json.get("quantized_layers") {
            Some(Json::Map(layers)) => {
                for (name, rule) in layers {
                    let field = format!("quantized_layers.{}", plain(name));
                    check_group_size(&self.path, &format!("{field}.group_size"), rule)?;
                    let named = rule.get("quant_algo").unwrap_or(&Json::Null);
                    let algo = algo(&self.path, &field, named)?;
                    self.layers.insert(strip(plain(name)).to_string(), algo);
                }
            }
            Some(other) => return Err(Error::field(&self.path, "quantized_layers", other, "a map")),
            None => self.read_groups(json)?,
        }
        if self.layers.is_empty() {
            let expected = "the layers of MIXED_PRECISION";
            return Err(Error::field(&self.path, "quantized_layers", "nothing", expected));
        }
        Ok(())
    }

    /// `config_groups`: formats with the modules they are for, or all linear layers.
    fn read_groups(&mut self, json: &Json) -> Result<()> {
        let groups = match json.get("config_groups") {
            None => {
                self.algo = Some(Algo::None);
                return Ok(());
            }
            Some(Json::Map(groups)) => groups,
            Some(other) => return Err(Error::field(&self.path, "config_groups", other, "a map")),
        };
        for (group, json) in groups {
            let field = format!("config_groups.{group}");
            let algo = group_algo(&self.path, &field, json)?;
            for target in names(&self.path, &format!("{field}.targets"), json.get("targets"))? {
                if target != "Linear" {
                    self.layers.insert(strip(target).to_string(), algo);
                } else if self.algo.replace(algo).is_some_and(|other| other != algo) {
                    let expected = "one group for all linear layers";
                    return Err(Error::field(&self.path, &field, "Linear", expected));
                }
            }
        }
        Ok(())
    }

    /// The precision of a module.
    pub(super) fn resolve(&self, module: &str) -> Result<Algo> {
        let bare = strip(module);
        if self.excluded.iter().any(|pattern| pattern.excludes(module, bare)) {
            return Ok(Algo::None);
        }
        if let Some(algo) = self.layers.get(bare) {
            return Ok(*algo);
        }
        if let Some(algo) = self.inside(bare)? {
            return Ok(algo);
        }
        let named = experts(bare).find_map(|group| self.layers.get(group)).copied();
        Ok(named.or(self.algo).unwrap_or(Algo::None))
    }

    /// What the rules for modules inside this one say, if there are any: all the same.
    fn inside(&self, bare: &str) -> Result<Option<Algo>> {
        let prefix = format!("{bare}.");
        let after = self.layers.range(prefix.clone()..);
        let mut rules = after.take_while(|(key, _)| key.starts_with(&prefix));
        let Some((_, first)) = rules.next() else { return Ok(None) };
        match rules.find(|(_, algo)| *algo != first) {
            None => Ok(Some(*first)),
            Some((key, other)) => {
                let (got, expected) = (format!("{other:?} for {key}"), format!("{first:?} as its siblings"));
                Err(Error::field(&self.path, "quantized_layers", got, expected))
            }
        }
    }
}

/// Of an expert's module, the modules it is in, down to the mixer.
fn experts(bare: &str) -> impl Iterator<Item = &str> {
    let mixer = bare.find(".experts.");
    std::iter::successors(Some(bare), |name| name.rsplit_once('.').map(|(parent, _)| parent))
        .skip(1)
        .take_while(move |name| mixer.is_some_and(|at| name.len() >= at))
}

fn algo(path: &Path, field: &str, got: &Json) -> Result<Algo> {
    let known = got.text().and_then(Algo::parse);
    known.ok_or_else(|| Error::field(path, field, got, "FP8, NVFP4, W4A16_NVFP4 or MIXED_PRECISION"))
}

/// The algorithm of a group: its weights, and whether activations are rounded.
fn group_algo(path: &Path, field: &str, json: &Json) -> Result<Algo> {
    let weights = json.get("weights").unwrap_or(&Json::Null);
    check_group_size(path, &format!("{field}.weights.group_size"), weights)?;
    let float = weights.get("type").and_then(Json::text) == Some("float");
    match (weights.get("num_bits"), float, json.get("input_activations")) {
        (Some(Json::Int(8)), true, Some(_)) => Ok(Algo::Fp8),
        (Some(Json::Int(4)), true, Some(_)) => Ok(Algo::Nvfp4),
        (Some(Json::Int(4)), true, None) => Ok(Algo::W4a16Nvfp4),
        _ => {
            let expected = "floats of 8 bits with activations, or of 4 bits in groups of 16";
            Err(Error::field(path, &format!("{field}.weights"), weights, expected))
        }
    }
}

/// `exclude_modules` and `ignore`.
fn excluded(path: &Path, json: &Json) -> Result<Vec<Pattern>> {
    let mut patterns = Vec::new();
    for field in ["exclude_modules", "ignore"] {
        for name in names(path, field, json.get(field))? {
            let expected = "a module name, with * and ?";
            let refuse = || Error::field(path, field, format!("{name:?}"), expected);
            patterns.push(Pattern::new(name).ok_or_else(refuse)?);
        }
    }
    Ok(patterns)
}

fn names<'a>(path: &Path, field: &str, got: Option<&'a Json>) -> Result<Vec<&'a str>> {
    let refuse = |got: &Json| Error::field(path, field, got, "a list of module names");
    match got {
        None => Ok(Vec::new()),
        Some(Json::List(list)) => {
            list.iter().map(|name| name.text().map(plain).ok_or_else(|| refuse(name))).collect()
        }
        Some(got) => Err(refuse(got)),
    }
}

/// NVFP4 has blocks of 16.
fn check_group_size(path: &Path, field: &str, json: &Json) -> Result<()> {
    match json.get("group_size") {
        None | Some(Json::Int(16)) => Ok(()),
        Some(got) => Err(Error::field(path, field, got, "16")),
    }
}

fn kv_cache_fp8(path: &Path, json: &Json) -> Result<bool> {
    if let Some(name) = json.get("kv_cache_quant_algo") {
        return match name.text().map(str::to_ascii_uppercase).as_deref() {
            Some("FP8") => Ok(true),
            Some("NONE") => Ok(false),
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
