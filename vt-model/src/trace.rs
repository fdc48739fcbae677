//! What a forward pass computed, operation by operation, labelled by request and position: two runs can be
//! compared row by row however each was batched or cut into chunks.

use std::sync::Arc;

use half::bf16;
use vt_kernels::{DType, Element};

use crate::engine::RequestId;

/// Which token of which request a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId {
    /// The request.
    pub request: RequestId,
    /// Position of the token in its sequence, from 0.
    pub position: u32,
}

/// Elements of a traced tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// bf16.
    Bf16(Vec<bf16>),
    /// f32.
    F32(Vec<f32>),
    /// Unsigned integers: expert ids.
    U32(Vec<u32>),
}

impl Values {
    /// Values of an element type; f16 widens to f32.
    pub fn new<T: Element>(values: &[T]) -> Values {
        match T::DTYPE {
            DType::Bf16 => Values::Bf16(bytemuck::cast_slice(values).to_vec()),
            _ => Values::F32(values.iter().map(|x| x.to_f32()).collect()),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Values::Bf16(v) => v.len(),
            Values::F32(v) => v.len(),
            Values::U32(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bits of element `i`, widened.
    pub fn bits(&self, i: usize) -> u32 {
        match self {
            Values::Bf16(v) => v[i].to_bits().into(),
            Values::F32(v) => v[i].to_bits(),
            Values::U32(v) => v[i],
        }
    }

    /// Element `i` as a number.
    pub fn value(&self, i: usize) -> f64 {
        match self {
            Values::Bf16(v) => v[i].to_f64(),
            Values::F32(v) => v[i].into(),
            Values::U32(v) => v[i].into(),
        }
    }
}

/// One traced tensor `[rows, cols]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Index of the layer; `None` for embedding and logits.
    pub layer: Option<usize>,
    /// The operation that wrote it, such as `in_proj` or `router_logits`.
    pub operation: &'static str,
    /// What each row is.
    pub rows: Arc<[RowId]>,
    /// Elements in a row.
    pub cols: usize,
    /// The elements, row after row.
    pub values: Values,
}

/// Takes what a forward pass computes.
pub trait Trace {
    /// Whether entries are wanted: reading them back costs time.
    fn enabled(&self) -> bool {
        true
    }

    /// Takes one tensor. Tensors come in the order of execution.
    fn record(&mut self, entry: Entry);
}

/// Wants nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl Trace for NoTrace {
    fn enabled(&self) -> bool {
        false
    }

    fn record(&mut self, _: Entry) {}
}

/// Keeps everything.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What came, in order.
    pub entries: Vec<Entry>,
}

impl Trace for Record {
    fn record(&mut self, entry: Entry) {
        self.entries.push(entry);
    }
}
