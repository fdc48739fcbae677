//! Headers of safetensors files, checked before anything is allocated for what they claim.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use safetensors::tensor::TensorInfo;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::{Entry, Span};
use crate::error::{Error, Result};

/// Longest header that is read, as in the safetensors crate; one of 166,000 tensors has 25 MB.
const MAX_HEADER: u64 = 100_000_000;

/// Opens a file and gives its tensors; `index` is the file's number in their spans.
pub(super) fn open(path: &Path, index: usize) -> Result<(File, BTreeMap<String, Entry>)> {
    let io = |e| Error::io(path, e);
    let metadata = std::fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        return Err(Error::format(path, "not a regular file"));
    }
    let (file, size) = (File::open(path).map_err(io)?, metadata.len());
    if size < 8 {
        return Err(Error::format(
            path,
            format!("{size} bytes, expected at least the 8 of a header's length"),
        ));
    }
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 0).map_err(io)?;
    let length = u64::from_le_bytes(word);
    if length > MAX_HEADER.min(size - 8) {
        let limit = MAX_HEADER.min(size - 8);
        return Err(Error::format(path, format!("a header of {length} bytes, expected at most {limit}")));
    }
    let mut text = vec![0; length as usize];
    file.read_exact_at(&mut text, 8).map_err(io)?;
    let header: Header =
        serde_json::from_slice(&text).map_err(|e| Error::format(path, format!("header: {e}")))?;
    let tensors = entries(header, path, index, 8 + length, size)?;
    Ok((file, tensors))
}

/// Entries of a header: each as long as its type and shape say, one after the other from `start` to `size`.
fn entries(
    header: Header,
    path: &Path,
    index: usize,
    start: u64,
    size: u64,
) -> Result<BTreeMap<String, Entry>> {
    let data = size - start;
    let mut order: Vec<(&String, &TensorInfo)> = header.0.iter().collect();
    order.sort_by_key(|(_, info)| info.data_offsets);
    let mut end = 0;
    for (name, info) in order {
        let (from, to) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
        let got = || format!("data at bytes {from} to {to}");
        if to > data {
            let expected = format!("within the {data} that follow the header");
            return Err(Error::tensor(path, name, got(), expected));
        }
        if from != end || to < from {
            return Err(Error::tensor(
                path,
                name,
                got(),
                format!("to begin at {end}, where the last one ends"),
            ));
        }
        let elements = info.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d as u64));
        let bits = elements.and_then(|n| n.checked_mul(info.dtype.bitsize() as u64));
        if bits != (to - from).checked_mul(8) {
            let expected = format!("as many as {} {:?} has", info.dtype, info.shape);
            return Err(Error::tensor(path, name, format!("{} bytes", to - from), expected));
        }
        end = to;
    }
    if end != data {
        return Err(Error::format(path, format!("{data} bytes of data, expected the {end} of its tensors")));
    }
    let entry = |(name, info): (String, TensorInfo)| {
        let (from, to) = info.data_offsets;
        let span = Span { file: index, offset: start + from as u64, len: to - from };
        (name, Entry { dtype: info.dtype, shape: info.shape, span, used: false.into() })
    };
    Ok(header.0.into_iter().map(entry).collect())
}

/// A header's tensors; a name that occurs twice is an error, metadata are skipped.
struct Header(BTreeMap<String, TensorInfo>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from names to tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut tensors = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let info = map.next_value::<TensorInfo>();
            let info = info.map_err(|e| A::Error::custom(format!("tensor {name}: {e}")))?;
            if tensors.contains_key(&name) {
                return Err(A::Error::custom(format!("tensor {name}: occurs twice")));
            }
            tensors.insert(name, info);
        }
        Ok(Header(tensors))
    }
}
