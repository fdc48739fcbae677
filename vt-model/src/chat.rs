//! Chat templates: messages to the text of a prompt, as transformers' `apply_chat_template` does it.
//!
//! A template is a program from a stranger. It runs without files or includes, with a limit on its steps, its
//! memory and its depth, and what it does wrong is an error.
//!
//! *Source*: transformers `utils/chat_template_utils.py` (trimmed blocks, loop controls, `generation` blocks,
//! `raise_exception`, `strftime_now`, `tojson` without HTML escapes).

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};
use serde_json::{Map, Value as Json};

mod json;
mod strftime;

pub use strftime::strftime;

/// A template that cannot be read or that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("chat template: {0}")]
pub struct ChatError(pub String);

type Result<T, E = ChatError> = std::result::Result<T, E>;

/// Steps of one rendering, or 64 bytes each of text made or read: ten times what a full context takes.
const FUEL: u64 = 4_000_000;
/// Longest template in bytes.
const MAX_SOURCE: usize = 1 << 20;
/// Deepest nesting of values that go into a template.
const MAX_DEPTH: usize = 100;
const NAME: &str = "chat_template";

/// What a template is rendered with, besides the messages.
#[derive(Clone, Debug, Default)]
pub struct ChatOptions {
    /// Ends the prompt where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// Tools, as JSON schemas.
    pub tools: Option<Json>,
    /// The template's own variables, such as `enable_thinking`.
    pub variables: Map<String, Json>,
}

/// A compiled template.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    env: Environment<'static>,
    special_tokens: Vec<(String, Value)>,
}

impl ChatTemplate {
    /// The template of a checkpoint's folder: `chat_template.jinja`, else `chat_template` of
    /// `tokenizer_config.json` (a string, or a list of named ones of which `default` is taken); `None` if
    /// there is none. Tokens named `*_token` in `tokenizer_config.json` are variables of the template.
    pub fn load(dir: &Path) -> Result<Option<Self>> {
        let read = |name: &str| {
            let path = dir.join(name);
            let text = path.exists().then(|| std::fs::read_to_string(&path));
            text.transpose().map_err(|e| ChatError(format!("{}: {e}", path.display())))
        };
        let config: Map<String, Json> = match read("tokenizer_config.json")? {
            Some(text) => serde_json::from_str(&text)
                .map_err(|e| ChatError(format!("{}: {e}", dir.join("tokenizer_config.json").display())))?,
            None => Map::new(),
        };
        let source = match read("chat_template.jinja")? {
            Some(source) => Some(source),
            None => from_config(config.get("chat_template"))?,
        };
        source.map(|source| ChatTemplate::new(&source, &config)).transpose()
    }

    /// Compiles a template; `*_token` entries of `config`, strings or objects with `content`, become variables.
    pub fn new(source: &str, config: &Map<String, Json>) -> Result<Self> {
        if source.len() > MAX_SOURCE {
            return Err(ChatError(format!("{} bytes, expected at most {MAX_SOURCE}", source.len())));
        }
        let mut env = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        env.set_syntax(syntax.map_err(message)?);
        env.set_fuel(Some(FUEL));
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_formatter(|out, state, value| json::format(out, state, value));
        env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        env.add_filter("tojson", json::tojson);
        env.add_function("raise_exception", |reason: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, reason))
        });
        env.add_function("strftime_now", |format: String| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            strftime(&format, now)
        });
        env.add_template_owned(NAME, without_generation(source)).map_err(message)?;
        let token = |value: &Json| match value {
            Json::String(token) => Some(Value::from(token.as_str())),
            value => value.get("content").and_then(Json::as_str).map(Value::from),
        };
        let tokens = config.iter().filter(|(name, _)| name.ends_with("_token"));
        let special_tokens = tokens.filter_map(|(name, value)| Some((name.clone(), token(value)?))).collect();
        Ok(ChatTemplate { env, special_tokens })
    }

    /// The prompt of `messages`, objects with `role` and `content` and whatever else the template reads.
    pub fn render(&self, messages: &[Json], options: &ChatOptions) -> Result<String> {
        let messages = messages.iter().map(|message| value(message, 0)).collect::<Result<Vec<_>>>()?;
        let mut variables = self.special_tokens.clone();
        for (name, json) in &options.variables {
            variables.push((name.clone(), value(json, 0)?));
        }
        variables.push(("messages".into(), Value::from(messages)));
        variables.push(("add_generation_prompt".into(), options.add_generation_prompt.into()));
        variables.push(("tools".into(), options.tools.as_ref().map_or(Ok(().into()), |t| value(t, 0))?));
        variables.push(("documents".into(), ().into()));
        let template = self.env.get_template(NAME).map_err(message)?;
        template.render(Value::from_pairs(variables)).map_err(message)
    }
}

/// One message.
pub fn chat_message(role: &str, content: &str) -> Json {
    serde_json::json!({ "role": role, "content": content })
}

fn from_config(template: Option<&Json>) -> Result<Option<String>> {
    match template {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(source)) => Ok(Some(source.clone())),
        Some(Json::Array(named)) => {
            let default =
                named.iter().find(|entry| entry.get("name").and_then(Json::as_str) == Some("default"));
            let source = default.and_then(|entry| entry.get("template")).and_then(Json::as_str);
            source.map(|source| Some(source.to_owned())).ok_or_else(|| {
                ChatError("tokenizer_config.json: a list of templates without one named `default`".into())
            })
        }
        Some(_) => {
            Err(ChatError("tokenizer_config.json: `chat_template` is neither a string nor a list".into()))
        }
    }
}

/// `{% generation %}` marks the assistant's text for training; here it is a block that always runs.
fn without_generation(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let inner = &tag[..end];
        match inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+') {
            "generation" => out.push_str(&inner.replace("generation", "if true")),
            "endgeneration" => out.push_str(&inner.replace("endgeneration", "endif")),
            _ => out.push_str(inner),
        }
        rest = &tag[end..];
    }
    out + rest
}

fn value(json: &Json, depth: usize) -> Result<Value> {
    if depth > MAX_DEPTH {
        return Err(ChatError(format!("values nested deeper than {MAX_DEPTH}")));
    }
    Ok(match json {
        Json::Null => Value::from(()),
        Json::Bool(b) => Value::from(*b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => Value::from(n),
            (None, Some(n)) => Value::from(n),
            (None, None) => Value::from(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(s) => Value::from(s.as_str()),
        Json::Array(items) => {
            Value::from(items.iter().map(|item| value(item, depth + 1)).collect::<Result<Vec<_>>>()?)
        }
        Json::Object(entries) => {
            let entries = entries.iter().map(|(key, item)| Ok((key.as_str(), value(item, depth + 1)?)));
            Value::from_pairs(entries.collect::<Result<Vec<_>>>()?)
        }
    })
}

fn message(error: Error) -> ChatError {
    // One line: the template may have put newlines into its own message.
    ChatError(error.to_string().replace(['\n', '\r'], " "))
}
