//! Safetensors files of a folder: headers checked whole before any tensor is read, data by positioned reads.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytemuck::Pod;
use rayon::prelude::*;
use safetensors::Dtype;

use crate::error::{Error, Result};

mod header;

/// Bytes of one read; large tensors are read in such pieces, in parallel.
const PIECE: usize = 16 << 20;

/// A tensor in a file.
#[derive(Debug)]
pub(crate) struct Entry {
    file: usize,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// From the start of the file; within it.
    offset: u64,
    /// Bytes, as dtype and shape say.
    len: usize,
    used: AtomicBool,
}

/// An open checkpoint.
pub(crate) struct Checkpoint<'a> {
    dir: PathBuf,
    files: Vec<(PathBuf, File)>,
    tensors: BTreeMap<String, Entry>,
    done: AtomicU64,
    progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl<'a> Checkpoint<'a> {
    /// Opens `model.safetensors`, or the shards that `model.safetensors.index.json` names.
    pub(crate) fn open(dir: &Path, progress: &'a (dyn Fn(u64, u64) + Sync)) -> Result<Self> {
        let (files, tensors) = header::open(dir)?;
        Ok(Checkpoint { dir: dir.into(), files, tensors, done: AtomicU64::new(0), progress })
    }

    /// A tensor by name; it counts as used.
    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        let entry = self.tensors.get(name)?;
        entry.used.store(true, Ordering::Relaxed);
        Some(entry)
    }

    /// Whether a tensor is there; it does not count as used.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// A tensor that must be there.
    pub(crate) fn get(&self, name: &str) -> Result<&Entry> {
        self.find(name).ok_or_else(|| Error::tensor(&self.dir, name, "missing", "a tensor of this name"))
    }

    /// [`Error::Tensor`] with the tensor's file.
    pub(crate) fn error(&self, name: &str, got: impl ToString, expected: impl ToString) -> Error {
        let path = self.tensors.get(name).map_or(&self.dir, |entry| &self.files[entry.file].0);
        Error::tensor(path, name, got, expected)
    }

    /// The elements of a tensor, read in parallel pieces straight to their place.
    pub(crate) fn read<T: Pod + Send + Sync>(&self, name: &str, entry: &Entry) -> Result<Vec<T>> {
        self.read_part(name, entry, 0, entry.len)
    }

    /// Part `index` of `parts` equal ones along the first dimension.
    pub(crate) fn read_slice<T: Pod + Send + Sync>(
        &self,
        name: &str,
        entry: &Entry,
        index: usize,
        parts: usize,
    ) -> Result<Vec<T>> {
        let len = entry.len / parts.max(1);
        self.read_part(name, entry, index * len, len)
    }

    fn read_part<T: Pod + Send + Sync>(
        &self,
        name: &str,
        entry: &Entry,
        start: usize,
        len: usize,
    ) -> Result<Vec<T>> {
        let size = size_of::<T>();
        if !len.is_multiple_of(size) || start + len > entry.len {
            return Err(self.error(name, format!("{len} bytes"), format!("elements of {size} bytes")));
        }
        let mut data: Vec<T> = bytemuck::allocation::zeroed_vec(len / size);
        let (path, file) = &self.files[entry.file];
        let total = self.total();
        let pieces = bytemuck::cast_slice_mut::<T, u8>(&mut data).par_chunks_mut(PIECE).enumerate();
        pieces.try_for_each(|(i, piece)| {
            let at = entry.offset + (start + i * PIECE) as u64;
            file.read_exact_at(piece, at).map_err(|e| Error::io(path, e))?;
            let done = self.done.fetch_add(piece.len() as u64, Ordering::Relaxed) + piece.len() as u64;
            (self.progress)(done, total);
            Ok::<(), Error>(())
        })?;
        Ok(data)
    }

    fn total(&self) -> u64 {
        self.tensors.values().map(|entry| entry.len as u64).sum()
    }

    /// Names of the tensors that nothing used.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &str> {
        let unused = self.tensors.iter().filter(|(_, entry)| !entry.used.load(Ordering::Relaxed));
        unused.map(|(name, _)| name.as_str())
    }
}
