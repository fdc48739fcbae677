//! The mixers of Nemotron-H: each takes the normed stream and returns what is added to it.

use std::sync::Arc;

use half::bf16;
use vt_kernels::Element;

use crate::backend::Backend;
use crate::batch::Batch;
use crate::config::Config;
use crate::trace::{Entry, RowId, Trace, Values};

pub(crate) mod attention;
pub(crate) mod mamba2;
pub(crate) mod moe;

/// What a layer needs beside its weights and state.
pub(crate) struct Step<'a, B: Backend> {
    pub(crate) backend: &'a B,
    pub(crate) config: &'a Config,
    pub(crate) batch: &'a Batch,
    pub(crate) block_size: usize,
    pub(crate) layer: Option<usize>,
    pub(crate) trace: &'a mut dyn Trace,
}

impl<B: Backend> Step<'_, B> {
    /// Traces a matrix with one row for each token of the batch.
    pub(crate) fn matrix<T: Element>(&mut self, operation: &'static str, matrix: &B::Matrix<T>) {
        if self.trace.enabled() {
            let values = Values::new(&self.backend.read(matrix));
            self.values(operation, self.batch.rows.clone(), values);
        }
    }

    /// Traces a matrix with one row for each token of the batch, and hands it on.
    pub(crate) fn traced(&mut self, operation: &'static str, matrix: B::Matrix<bf16>) -> B::Matrix<bf16> {
        self.matrix(operation, &matrix);
        matrix
    }

    /// Traces values with one row for each of `rows`.
    pub(crate) fn values(&mut self, operation: &'static str, rows: Arc<[RowId]>, values: Values) {
        let cols = if rows.is_empty() { 0 } else { values.len() / rows.len() };
        self.trace.record(Entry { layer: self.layer, operation, rows, cols, values });
    }
}
