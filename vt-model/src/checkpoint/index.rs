//! The files of a folder: `model.safetensors`, or the shards that `model.safetensors.index.json` names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use super::{Entry, header};
use crate::config::json::Json;
use crate::error::{Error, Result};

/// The file that names the shards.
pub(super) const NAME: &str = "model.safetensors.index.json";
/// Most shards of a checkpoint: each is an open file.
const MAX_SHARDS: usize = 768;

/// Open files, and the tensors of all of them.
type Opened = (Vec<(PathBuf, File)>, BTreeMap<String, Entry>);

/// Opens every file of `dir`; an index and its shards must agree on every tensor.
pub(super) fn open(dir: &Path) -> Result<Opened> {
    let index_path = dir.join(NAME);
    if !index_path.exists() {
        return add_all(vec![dir.join("model.safetensors")]);
    }
    let index = Json::read(&index_path)?;
    let Some(Json::Map(map)) = index.get("weight_map") else {
        return Err(Error::field(&index_path, "weight_map", "missing", "a map from tensors to files"));
    };
    let mut shards = BTreeSet::new();
    for (tensor, file) in map {
        let name = file.text().filter(|name| is_plain(name));
        let field = || format!("weight_map.{tensor}");
        let expected = "the name of a file beside the index";
        shards.insert(name.ok_or_else(|| Error::field(&index_path, &field(), file, expected))?);
    }
    if shards.len() > MAX_SHARDS {
        let got = format!("{} files", shards.len());
        return Err(Error::field(&index_path, "weight_map", got, format!("at most {MAX_SHARDS}")));
    }
    let (files, tensors) = add_all(shards.iter().map(|shard| dir.join(shard)).collect())?;
    for (tensor, file) in map {
        let path = tensors.get(tensor).map(|entry| &files[entry.span.file].0);
        if path.and_then(|path| path.file_name()?.to_str()) != file.text() {
            return Err(Error::tensor(&index_path, tensor, "missing", format!("to be in {file}")));
        }
    }
    match tensors.iter().find(|(tensor, _)| !map.contains_key(*tensor)) {
        None => Ok((files, tensors)),
        Some((tensor, entry)) => {
            let path = &files[entry.span.file].0;
            Err(Error::tensor(path, tensor, "surplus", "only tensors that the index names"))
        }
    }
}

fn add_all(paths: Vec<PathBuf>) -> Result<Opened> {
    let (mut files, mut tensors): Opened = Default::default();
    for (i, path) in paths.into_iter().enumerate() {
        let (file, added) = header::open(&path, i)?;
        if let Some(name) = added.keys().find(|name| tensors.contains_key(*name)) {
            let first = files[tensors[name].span.file].0.display();
            return Err(Error::tensor(&path, name, format!("in {first} too"), "each tensor once"));
        }
        tensors.extend(added);
        files.push((path, file));
    }
    Ok((files, tensors))
}

/// A file name without a folder.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let one = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    one && !name.contains(['/', '\\', '\0'])
}
