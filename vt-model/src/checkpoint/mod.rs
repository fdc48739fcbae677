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
mod index;

/// Bytes of one read; large tensors are read in such pieces, in parallel.
const PIECE: usize = 16 << 20;

/// Bytes of a file that hold a tensor or a part of one; within the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    file: usize,
    offset: u64,
    len: usize,
}

impl Span {
    /// Bytes.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Part `i` of `parts` equal ones; nothing if they are not equal or there are not so many.
    pub(crate) fn part(self, i: usize, parts: usize) -> Option<Span> {
        if i >= parts || !self.len.is_multiple_of(parts) {
            return None;
        }
        let len = self.len / parts;
        Some(Span { offset: self.offset + (i * len) as u64, len, ..self })
    }
}

/// A tensor in a file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// As long as dtype and shape say.
    pub(crate) span: Span,
    used: AtomicBool,
}

/// An open checkpoint.
pub(crate) struct Checkpoint<'a> {
    /// Where a tensor that is missing should be: the one file, or the index.
    place: PathBuf,
    files: Vec<(PathBuf, File)>,
    tensors: BTreeMap<String, Entry>,
    done: AtomicU64,
    total: u64,
    progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl<'a> Checkpoint<'a> {
    /// Opens a folder; `skipped` says which tensors will not be read and count for no progress.
    pub(crate) fn open(
        dir: &Path,
        skipped: fn(&str) -> bool,
        progress: &'a (dyn Fn(u64, u64) + Sync),
    ) -> Result<Self> {
        let (files, tensors) = index::open(dir)?;
        let read = tensors.iter().filter(|(name, _)| !skipped(name));
        let total = read.fold(0u64, |sum, (_, entry)| sum.saturating_add(entry.span.len as u64));
        let place = match &files[..] {
            [(path, _)] => path.clone(),
            _ => dir.join(index::NAME),
        };
        Ok(Checkpoint { place, files, tensors, done: AtomicU64::new(0), total, progress })
    }

    /// Every tensor by name.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.tensors.iter().map(|(name, entry)| (name.as_str(), entry))
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

    /// A tensor that must be there; it counts as used.
    pub(crate) fn get(&self, name: &str) -> Result<&Entry> {
        self.find(name).ok_or_else(|| Error::tensor(&self.place, name, "missing", "a tensor of this name"))
    }

    /// [`Error::Tensor`] with the tensor's file.
    pub(crate) fn error(&self, name: &str, got: impl ToString, expected: impl ToString) -> Error {
        let path = self.tensors.get(name).map_or(&self.place, |entry| &self.files[entry.span.file].0);
        Error::tensor(path, name, got, expected)
    }

    /// The elements in a span, read in parallel pieces straight to their place.
    pub(crate) fn read<T: Pod + Send + Sync>(&self, name: &str, span: Span) -> Result<Vec<T>> {
        let size = size_of::<T>();
        if !span.len.is_multiple_of(size) {
            let got = format!("{} bytes", span.len);
            return Err(self.error(name, got, format!("elements of {size} bytes")));
        }
        // Zeroed by the system when first touched, which is in the thread that reads into it.
        let mut data: Vec<T> = bytemuck::allocation::try_zeroed_vec(span.len / size)
            .map_err(|()| self.error(name, format!("{} bytes", span.len), "memory for them"))?;
        let file = &self.files[span.file].1;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut data);
        bytes.par_chunks_mut(PIECE).enumerate().try_for_each(|(i, piece)| {
            let (at, len) = (span.offset + (i * PIECE) as u64, piece.len() as u64);
            let failed = |e| self.error(name, e, format!("{len} bytes at {at}"));
            file.read_exact_at(piece, at).map_err(failed)?;
            (self.progress)(self.done.fetch_add(len, Ordering::Relaxed) + len, self.total);
            Ok::<(), Error>(())
        })?;
        Ok(data)
    }

    /// Names of the tensors that nothing used.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &str> {
        let unused = self.tensors.iter().filter(|(_, entry)| !entry.used.load(Ordering::Relaxed));
        unused.map(|(name, _)| name.as_str())
    }
}
