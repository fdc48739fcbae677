//! Fields of a configuration file by name, with bounds.

use std::path::Path;

use super::json::Json;
use crate::error::{Error, Result};

/// Largest size that a field may name: far above any model, and products of three of them stay within 64 bits.
const MAX_SIZE: i64 = 1 << 21;

/// The fields of one file.
pub(super) struct Fields<'a> {
    pub(super) json: &'a Json,
    pub(super) path: &'a Path,
}

impl<'a> Fields<'a> {
    /// The first of the names that has a value. Legacy names come first: where both are given they win.
    pub(super) fn find(&self, names: &[&'static str]) -> Option<(&'static str, &'a Json)> {
        names.iter().find_map(|name| Some((*name, self.json.get(name)?)))
    }

    pub(super) fn error(&self, field: &str, got: &Json, expected: &str) -> Error {
        Error::field(self.path, field, got, expected)
    }

    /// A whole number between `least` and 2^21.
    pub(super) fn size(&self, names: &[&'static str], default: usize, least: i64) -> Result<usize> {
        match self.find(names) {
            None => Ok(default),
            Some((name, got)) => match got {
                Json::Int(n) if (least..=MAX_SIZE).contains(n) => Ok(*n as usize),
                _ => Err(self.error(name, got, &format!("a whole number, {least} to {MAX_SIZE}"))),
            },
        }
    }

    /// [`Fields::size`], or nothing.
    pub(super) fn optional_size(&self, name: &'static str) -> Result<Option<usize>> {
        match self.find(&[name]) {
            None => Ok(None),
            Some(_) => self.size(&[name], 0, 1).map(Some),
        }
    }

    pub(super) fn flag(&self, names: &[&'static str], default: bool) -> Result<bool> {
        match self.find(names) {
            None => Ok(default),
            Some((_, Json::Bool(value))) => Ok(*value),
            Some((name, got)) => Err(self.error(name, got, "true or false")),
        }
    }

    pub(super) fn number(&self, names: &[&'static str], default: f64) -> Result<f64> {
        match self.find(names) {
            None => Ok(default),
            Some((name, got)) => {
                let number = got.number().filter(|x| !x.is_nan());
                number.ok_or_else(|| self.error(name, got, "a number"))
            }
        }
    }

    pub(super) fn text(&self, names: &[&'static str]) -> Result<Option<&'a str>> {
        match self.find(names) {
            None => Ok(None),
            Some((name, got)) => got.text().map(Some).ok_or_else(|| self.error(name, got, "a text")),
        }
    }

    /// A token id, or nothing.
    pub(super) fn token(&self, name: &'static str) -> Result<Option<u32>> {
        Ok(self.tokens(name)?.first().copied())
    }

    /// A token id or a list of them.
    pub(super) fn tokens(&self, name: &'static str) -> Result<Vec<u32>> {
        let Some((_, got)) = self.find(&[name]) else { return Ok(Vec::new()) };
        let list = match got {
            Json::List(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        let id = |json: &Json| match json {
            Json::Int(n) => u32::try_from(*n).ok(),
            _ => None,
        };
        let ids: Option<Vec<u32>> = list.iter().map(id).collect();
        ids.ok_or_else(|| self.error(name, got, "a token id or a list of them"))
    }
}
