//! Values as JSON and as Python prints them, within limits: a template can build values that contain
//! themselves.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, Value};

/// Deepest nesting that is written.
const MAX_DEPTH: usize = 64;

/// How `tojson` lays a value out.
struct Style {
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
    ensure_ascii: bool,
}

/// Python's `json.dumps(value, ensure_ascii, indent, separators, sort_keys)`, `ensure_ascii` false by default.
pub(super) fn tojson(state: &State<'_, '_>, value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let indent = match kwargs.get::<Option<Value>>("indent")? {
        None => None,
        Some(indent) if indent.is_none() => None,
        Some(indent) => Some(match indent.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(indent.as_usize().filter(|&n| n <= 16).ok_or_else(|| {
                Error::new(ErrorKind::InvalidOperation, "tojson: indent must be a string or at most 16")
            })?),
        }),
    };
    let item = if indent.is_some() { "," } else { ", " };
    let (item, key) = match kwargs.get::<Option<Vec<String>>>("separators")? {
        None => (item.to_owned(), ": ".to_owned()),
        Some(pair) => <[String; 2]>::try_from(pair)
            .map(|[item, key]| (item, key))
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two strings"))?,
    };
    let sort_keys = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let ensure_ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let mut out = String::new();
    let style = Style { indent, item, key, sort_keys, ensure_ascii };
    write(state, value, &style, 0, &mut out)?;
    Ok(Value::from(out))
}

/// What `{{ value }}` prints: text as it is, `True`, `False`, `None` and containers as Python does.
pub(super) fn format(out: &mut Output<'_>, state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let text = match value.kind() {
        ValueKind::Undefined => return Ok(()),
        ValueKind::Bool | ValueKind::None | ValueKind::Seq | ValueKind::Map | ValueKind::Number => {
            let mut text = String::new();
            print(state, value, 0, &mut text)?;
            text
        }
        _ => value.to_string(),
    };
    state.consume_fuel(text.len() as u64 / 64)?;
    out.write_str(&text).map_err(|e| Error::new(ErrorKind::WriteFailure, e.to_string()))
}

fn enter(state: &State<'_, '_>, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("values nested deeper than {MAX_DEPTH}"),
        ));
    }
    state.consume_fuel(1)
}

fn write(
    state: &State<'_, '_>,
    value: &Value,
    style: &Style,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    enter(state, depth)?;
    let line = |out: &mut String, depth: usize| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    };
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value, ["NaN", "Infinity", "-Infinity"])),
        ValueKind::String => string(state, value.as_str().unwrap_or_default(), style, out)?,
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            let mut empty = true;
            for item in value.try_iter()? {
                if !std::mem::take(&mut empty) {
                    out.push_str(&style.item);
                }
                line(out, depth + 1);
                write(state, &item, style, depth + 1, out)?;
            }
            if !empty {
                line(out, depth);
            }
            out.push(']');
        }
        ValueKind::Map => {
            let mut keys: Vec<(String, Value)> = Vec::new();
            for key in value.try_iter()? {
                keys.push((key_text(&key)?, key));
            }
            if style.sort_keys {
                keys.sort_by(|a, b| a.0.cmp(&b.0));
            }
            out.push('{');
            for (i, (text, key)) in keys.iter().enumerate() {
                if i > 0 {
                    out.push_str(&style.item);
                }
                line(out, depth + 1);
                string(state, text, style, out)?;
                out.push_str(&style.key);
                write(state, &value.get_item(key)?, style, depth + 1, out)?;
            }
            if !keys.is_empty() {
                line(out, depth);
            }
            out.push('}');
        }
        kind => {
            let reason = format!("tojson: {kind} is not JSON serializable");
            return Err(Error::new(ErrorKind::BadSerialization, reason));
        }
    }
    Ok(())
}

fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
        ValueKind::None => "null".into(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.into(),
        ValueKind::Number => number(key, ["NaN", "Infinity", "-Infinity"]),
        kind => {
            let reason = format!("tojson: keys must be strings or numbers, not {kind}");
            return Err(Error::new(ErrorKind::BadSerialization, reason));
        }
    })
}

fn string(state: &State<'_, '_>, text: &str, style: &Style, out: &mut String) -> Result<(), Error> {
    state.consume_fuel(text.len() as u64 / 16)?;
    let json =
        serde_json::to_string(text).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    if !style.ensure_ascii {
        out.push_str(&json);
        return Ok(());
    }
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    Ok(())
}

/// A number as Python writes it; `special` are the names of NaN and the infinities.
fn number(value: &Value, special: [&str; 3]) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(x) = f64::try_from(value.clone()) else { return value.to_string() };
    if !x.is_finite() {
        return special[if x.is_nan() { 0 } else { 1 + usize::from(x < 0.0) }].into();
    }
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) || x == 0.0 {
        let text = x.to_string();
        return if text.contains('.') { text } else { text + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn print(state: &State<'_, '_>, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    enter(state, depth)?;
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number(value, ["nan", "inf", "-inf"])),
        ValueKind::String => repr(state, value.as_str().unwrap_or_default(), out)?,
        ValueKind::Seq => {
            let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
            out.push(open);
            let mut len = 0;
            for item in value.try_iter()? {
                if len > 0 {
                    out.push_str(", ");
                }
                print(state, &item, depth + 1, out)?;
                len += 1;
            }
            out.push_str(if value.is_tuple() && len == 1 { "," } else { "" });
            out.push(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                print(state, &key, depth + 1, out)?;
                out.push_str(": ");
                print(state, &value.get_item(&key)?, depth + 1, out)?;
            }
            out.push('}');
        }
        kind => out.push_str(&format!("<{kind}>")),
    }
    Ok(())
}

/// Python's `repr` of a string.
fn repr(state: &State<'_, '_>, text: &str, out: &mut String) -> Result<(), Error> {
    state.consume_fuel(text.len() as u64 / 16)?;
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
    Ok(())
}
