//! Golden files: prompts by ids, what a run answered, and by how much each answer won.
//!
//! Three forms are read. A list of rows `{prompt, prompt_ids, ids, second, logprob, margin_nats}`. An object
//! whose `prompts` are `{prompt: ids, tokens, steps: [{ids, logits, margin}]}`. This program's own: an object
//! with `format: "vt-golden"`, how the run was made ([`Capture`]), and `prompts` of rows like the list's.
//! Margins are what tells a near tie from a divergence, so a file without them can only be matched strictly.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A golden file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("golden: {0}")]
pub struct GoldenError(pub String);

type Result<T, E = GoldenError> = std::result::Result<T, E>;

fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(GoldenError(reason.into()))
}

/// Value of `format` in this program's own files.
pub const FORMAT: &str = "vt-golden";
/// Value of `version` in this program's own files.
pub const VERSION: u64 = 1;

/// How a golden of ours was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capture {
    /// Folder or name of the checkpoint.
    pub model: String,
    /// Revision of the checkpoint, if known.
    pub revision: Option<String>,
    /// Version of this program.
    pub vt: String,
    /// The architecture modelled, such as `sm_121a`.
    pub arch: String,
    /// `checkpoint` or `bf16`.
    pub activations: String,
    /// Sizes of the engine: KV blocks, block size, batch, chunking.
    pub engine: Map<String, Value>,
    /// How tokens were chosen, and whether end-of-sequence tokens were ignored.
    pub sampling: Map<String, Value>,
}

/// One prompt and its answer. The lists after `ids` are empty or as long as `ids`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The prompt's text, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The prompt.
    pub prompt_ids: Vec<u32>,
    /// The answer.
    pub ids: Vec<u32>,
    /// The answer's text, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The runner-up of each step.
    pub second: Vec<u32>,
    /// Log-probability of each answered token.
    pub logprob: Vec<f32>,
    /// How far the runner-up was behind, in nats.
    pub margin_nats: Vec<f32>,
}

/// A golden file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Golden {
    /// How it was made, in files of ours.
    pub capture: Option<Capture>,
    /// The prompts, at least one.
    pub rows: Vec<Row>,
}

impl Golden {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|e| GoldenError(format!("{}: {e}", path.display())))?;
        Golden::parse(&bytes).map_err(|e| GoldenError(format!("{}: {}", path.display(), e.0)))
    }

    /// Reads any of the three forms.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(bytes).map_err(|e| GoldenError(e.to_string()))?;
        let (capture, rows) = match &value {
            Value::Array(rows) => (None, rows),
            Value::Object(object) => {
                let capture = if object.contains_key("format") { Some(capture(object)?) } else { None };
                match object.get("prompts").or_else(|| object.get("golden")) {
                    Some(Value::Array(rows)) => (capture, rows),
                    _ => return refuse("`prompts` is not there or no list"),
                }
            }
            _ => return refuse("neither a list nor an object"),
        };
        if rows.is_empty() {
            return refuse("no prompts");
        }
        let rows = rows
            .iter()
            .enumerate()
            .map(|(i, value)| row(value).map_err(|e| GoldenError(format!("prompt {i}: {}", e.0))));
        Ok(Golden { capture, rows: rows.collect::<Result<_>>()? })
    }

    /// This program's own form, a prompt to a line.
    pub fn to_json(&self) -> String {
        let mut head = Map::new();
        head.insert("format".into(), FORMAT.into());
        head.insert("version".into(), VERSION.into());
        if let Ok(Value::Object(capture)) = serde_json::to_value(self.capture.clone().unwrap_or_default()) {
            head.extend(capture);
        }
        let mut out = String::from("{\n");
        for (key, value) in &head {
            out += &format!("{}: {value},\n", Value::from(key.as_str()));
        }
        let rows: Vec<_> = self.rows.iter().filter_map(|row| serde_json::to_string(row).ok()).collect();
        out + "\"prompts\": [\n" + &rows.join(",\n") + "\n]\n}\n"
    }
}

fn capture(object: &Map<String, Value>) -> Result<Capture> {
    let (format, version) = (object.get("format"), object.get("version"));
    if format.and_then(Value::as_str) != Some(FORMAT) || version.and_then(Value::as_u64) != Some(VERSION) {
        return refuse(format!(
            "format {} version {}, expected \"{FORMAT}\" version {VERSION}",
            format.unwrap_or(&Value::Null),
            version.unwrap_or(&Value::Null)
        ));
    }
    serde_json::from_value(Value::Object(object.clone())).map_err(|e| GoldenError(e.to_string()))
}

fn row(value: &Value) -> Result<Row> {
    let Value::Object(object) = value else { return refuse("not an object") };
    let first = |names: &[&'static str]| {
        names.iter().find_map(|&name| object.get(name).filter(|v| v.is_array()).map(|v| (name, v)))
    };
    let Some((name, prompt)) = first(&["prompt_ids", "prompt_token_ids", "prompt"]) else {
        return refuse("`prompt_ids` is not there or no list");
    };
    let prompt_ids = ids(name, prompt)?;
    let Some((name, answer)) = first(&["ids", "tokens", "token_ids"]) else {
        return refuse("`ids` is not there or no list");
    };
    let answer = ids(name, answer)?;
    let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut row =
        Row { prompt: text("prompt"), prompt_ids, ids: answer, text: text("text"), ..Row::default() };
    if row.prompt_ids.is_empty() {
        return refuse("`prompt_ids` is empty");
    }
    match object.get("steps") {
        Some(Value::Array(steps)) => {
            for (i, step) in steps.iter().enumerate() {
                let best = ids("ids", step.get("ids").unwrap_or(&Value::Null));
                let best = best.map_err(|e| GoldenError(format!("step {i}: {}", e.0)))?;
                let [_, second] = best[..] else {
                    return refuse(format!("step {i}: {} ids, expected 2", best.len()));
                };
                row.second.push(second);
                row.margin_nats.push(number("margin", step.get("margin").unwrap_or(&Value::Null))?);
            }
        }
        Some(_) => return refuse("`steps` is no list"),
        None => {
            let list = |name: &'static str| object.get(name).map(|value| (name, value));
            row.second = list("second").map_or(Ok(Vec::new()), |(name, value)| ids(name, value))?;
            row.logprob = list("logprob").map_or(Ok(Vec::new()), |(name, value)| numbers(name, value))?;
            row.margin_nats =
                list("margin_nats").map_or(Ok(Vec::new()), |(name, value)| numbers(name, value))?;
        }
    }
    for (name, len) in
        [("second", row.second.len()), ("logprob", row.logprob.len()), ("margin_nats", row.margin_nats.len())]
    {
        if len != 0 && len != row.ids.len() {
            return refuse(format!("`{name}` has {len} entries for {} ids", row.ids.len()));
        }
    }
    if let Some(margin) = row.margin_nats.iter().find(|&&margin| margin < 0.0) {
        return refuse(format!("`margin_nats` holds {margin}, expected at least 0"));
    }
    Ok(row)
}

fn list<'a>(name: &str, value: &'a Value) -> Result<&'a [Value]> {
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| GoldenError(format!("`{name}` is not there or no list")))
}

fn ids(name: &str, value: &Value) -> Result<Vec<u32>> {
    let id = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| GoldenError(format!("`{name}` holds {value}, expected a token id")))
    };
    list(name, value)?.iter().map(id).collect()
}

fn number(name: &str, value: &Value) -> Result<f32> {
    let number = value.as_f64().map(|x| x as f32).filter(|x| x.is_finite());
    number.ok_or_else(|| GoldenError(format!("`{name}` holds {value}, expected a finite number")))
}

fn numbers(name: &str, value: &Value) -> Result<Vec<f32>> {
    list(name, value)?.iter().map(|value| number(name, value)).collect()
}
