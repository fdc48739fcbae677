//! Which mixer each layer has, in every dialect.

use super::LayerKind;
use super::fields::Fields;
use super::json::Json;
use crate::error::{Error, Result};

/// Pattern of a configuration that names none: Nemotron-H-8B's.
const DEFAULT: &str = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-";
/// Most layers that are read.
const MAX_LAYERS: usize = 4096;

/// A list of names if there is one, else the pattern; their number must be `num_hidden_layers` if that is given.
pub(super) fn layers(fields: &Fields<'_>) -> Result<Vec<LayerKind>> {
    let list = fields.find(&["layers_block_type", "layer_types"]);
    let (name, layers) = match list {
        Some((name, got)) => (name, named(fields, name, got)?),
        None => {
            let pattern = fields.text(&["hybrid_override_pattern"])?.unwrap_or(DEFAULT);
            ("hybrid_override_pattern", drawn(fields, pattern)?)
        }
    };
    let count = fields.size(&["num_hidden_layers"], layers.len(), 0)?;
    if count != layers.len() || count > MAX_LAYERS {
        let expected = format!("num_hidden_layers = {count}, at most {MAX_LAYERS}");
        return Err(Error::field(fields.path, name, format!("{} layers", layers.len()), expected));
    }
    Ok(layers)
}

fn named(fields: &Fields<'_>, name: &str, got: &Json) -> Result<Vec<LayerKind>> {
    let Json::List(list) = got else {
        return Err(fields.error(name, got, "a list of layer types"));
    };
    let kind = |json: &Json| match json.text() {
        Some("mamba" | "mamba2" | "linear_attention") => Ok(LayerKind::Mamba),
        Some("attention" | "full_attention") => Ok(LayerKind::Attention),
        Some("moe") => Ok(LayerKind::Moe),
        Some("mlp") => Ok(LayerKind::Mlp),
        _ => {
            Err(fields.error(name, json, "mamba (linear_attention), attention (full_attention), moe or mlp"))
        }
    };
    list.iter().map(kind).collect()
}

fn drawn(fields: &Fields<'_>, pattern: &str) -> Result<Vec<LayerKind>> {
    let kind = |c| match c {
        'M' => Ok(LayerKind::Mamba),
        '*' => Ok(LayerKind::Attention),
        'E' => Ok(LayerKind::Moe),
        '-' => Ok(LayerKind::Mlp),
        _ => Err(Error::field(
            fields.path,
            "hybrid_override_pattern",
            format!("{c:?}"),
            "M (mamba), * (attention), E (moe) or - (mlp)",
        )),
    };
    pattern.chars().map(kind).collect()
}
