//! Headers and the index, checked before anything is allocated for what they claim.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicBool;

use safetensors::SafeTensors;

use super::Entry;
use crate::config::json::Json;
use crate::error::{Error, Result};

/// Longest header that is read: a checkpoint of 166,000 tensors has one of 25 MB.
const MAX_HEADER: u64 = 256 << 20;

type Files = Vec<(PathBuf, File)>;

pub(super) fn open(dir: &Path) -> Result<(Files, BTreeMap<String, Entry>)> {
    let index_path = dir.join("model.safetensors.index.json");
    let single = dir.join("model.safetensors");
    if !index_path.exists() {
        let (mut files, mut tensors) = (Vec::new(), BTreeMap::new());
        add(single, &mut files, &mut tensors)?;
        return Ok((files, tensors));
    }
    let index = Json::read(&index_path)?;
    let Some(Json::Map(map)) = index.get("weight_map") else {
        return Err(Error::field(&index_path, "weight_map", "nothing", "a map from tensors to files"));
    };
    let mut shards = BTreeSet::new();
    for (tensor, file) in map {
        let name = file.text().filter(|name| is_plain(name));
        let field = || format!("weight_map.{tensor}");
        shards.insert(
            name.ok_or_else(|| Error::field(&index_path, &field(), file, "a file beside the index"))?,
        );
    }
    let (mut files, mut tensors) = (Vec::new(), BTreeMap::new());
    for shard in shards {
        add(dir.join(shard), &mut files, &mut tensors)?;
    }
    for (tensor, file) in map {
        let path = tensors.get(tensor).map(|entry: &Entry| &files[entry.file].0);
        if path.and_then(|path| path.file_name()?.to_str()) != file.text() {
            let expected = format!("to be in {file} as the index says");
            return Err(Error::tensor(&index_path, tensor, "not there", expected));
        }
    }
    if let Some(tensor) = tensors.keys().find(|tensor| !map.contains_key(*tensor)) {
        return Err(Error::tensor(&index_path, tensor, "not in the index", "every tensor of its files"));
    }
    Ok((files, tensors))
}

/// A file name without a folder.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) && !name.contains('\\')
}

/// Reads the header of a file and adds its tensors.
fn add(path: PathBuf, files: &mut Files, tensors: &mut BTreeMap<String, Entry>) -> Result<()> {
    let io = |e| Error::io(&path, e);
    let file = File::open(&path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 0).map_err(io)?;
    let header = u64::from_le_bytes(word);
    if header > MAX_HEADER || header.saturating_add(8) > size {
        let what = format!(
            "a header of {header} bytes in a file of {size}, expected one within it and {MAX_HEADER}"
        );
        return Err(Error::format(&path, what));
    }
    let start = header + 8;
    let mut bytes = vec![0; start as usize];
    file.read_exact_at(&mut bytes, 0).map_err(io)?;
    let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(|e| Error::format(&path, e))?;
    for (name, info) in metadata.tensors() {
        let (from, to) = info.data_offsets;
        let end = start.checked_add(to as u64);
        if end.is_none_or(|end| end > size) {
            let expected = format!("within the file's {size} bytes");
            return Err(Error::tensor(
                &path,
                &name,
                format!("data up to byte {to} after the header"),
                expected,
            ));
        }
        let entry = Entry {
            file: files.len(),
            dtype: info.dtype,
            shape: info.shape.clone(),
            offset: start + from as u64,
            len: to - from,
            used: AtomicBool::new(false),
        };
        if let Some(other) = tensors.insert(name.clone(), entry) {
            let first = files.get(other.file).map_or(&path, |(path, _)| path).display().to_string();
            return Err(Error::tensor(&path, &name, format!("in {first} too"), "each tensor once"));
        }
    }
    files.push((path, file));
    Ok(())
}
