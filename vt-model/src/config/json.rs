//! JSON as configuration files of this family have it: `Infinity` bare or as `{"__float__": "Infinity"}`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, Result};

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 32;

/// A JSON value with numbers that JSON itself has not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Map(BTreeMap<String, Json>),
}

impl Json {
    /// Reads a text; `path` names it in errors.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Json> {
        check_depth(text, path)?;
        match serde_json::from_str(text) {
            Ok(json) => Ok(json),
            // Python writes Infinity and NaN, which only JSON5 reads; the first error is the better one.
            Err(error) if text.contains("Infinity") || text.contains("NaN") => {
                json5::from_str(text).map_err(|_| Error::format(path, error))
            }
            Err(error) => Err(Error::format(path, error)),
        }
    }

    /// Reads a file of at most 64 MiB.
    pub(crate) fn read(path: &Path) -> Result<Json> {
        Json::parse(&read_text(path)?, path)
    }

    /// The value under a name; nothing if this is no map, the name is absent, or the value is null.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Map(map) => map.get(name).filter(|value| **value != Json::Null),
            _ => None,
        }
    }

    /// A number, `{"__float__": "Infinity"}` included.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Json::Int(n) => Some(*n as f64),
            Json::Float(x) => Some(*x),
            Json::Map(_) => match self.get("__float__")? {
                Json::Text(text) => text.parse().ok(),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The text of a file of at most 64 MiB.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    const MAX: u64 = 64 << 20;
    let size = std::fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
    if size > MAX {
        return Err(Error::format(path, format!("{size} bytes, expected at most {MAX}")));
    }
    std::fs::read_to_string(path).map_err(|e| Error::io(path, e))
}

/// Parsers recurse: what is nested too deeply is refused before.
fn check_depth(text: &str, path: &Path) -> Result<()> {
    let (mut depth, mut quote, mut escaped) = (0usize, None, false);
    for byte in text.bytes() {
        match (quote, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'[' | b'{') => depth += 1,
            (None, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Error::format(path, format!("nested more than {MAX_DEPTH} deep")));
        }
    }
    Ok(())
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Int(n) => write!(f, "{n}"),
            Json::Float(x) => write!(f, "{x}"),
            Json::Text(text) => write!(f, "{text:?}"),
            Json::List(list) => write!(f, "a list of {}", list.len()),
            Json::Map(map) => write!(f, "a map of {}", map.len()),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_none<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        Json::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Float(value as f64), Json::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((name, value)) = entries.next_entry::<String, Json>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("{name:?} occurs twice")));
            }
            map.insert(name, value);
        }
        Ok(Json::Map(map))
    }
}
