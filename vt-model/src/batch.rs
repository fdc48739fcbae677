//! One step's batch: which tokens of which sequences are computed, and where their state lives.

use std::sync::Arc;

use crate::trace::RowId;

/// Tokens of one forward pass. Sequences that decode (one token, with state) come first, then those that
/// prefill; the metadata says which is which, never the number of tokens.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Token ids, `[total_tokens]`.
    pub ids: Vec<u32>,
    /// What each token is, `[total_tokens]`.
    pub rows: Arc<[RowId]>,
    /// The first so many sequences decode.
    pub n_decode: usize,
    /// Where each sequence's tokens begin, and the end: `[n_seqs + 1]`, from 0.
    pub cu_seqlens: Vec<u32>,
    /// Tokens of each sequence that are in its state after this step, `[n_seqs]`.
    pub seq_lens: Vec<u32>,
    /// KV pages of each sequence, `[n_seqs, max_blocks]`; what lies beyond a sequence's length is not read.
    pub block_table: Vec<u32>,
    /// Columns of `block_table`.
    pub max_blocks: usize,
    /// Row of the KV cache that each token writes, `[total_tokens]`: `block * block_size + offset`.
    pub kv_slots: Vec<i64>,
    /// Recurrent slot of each sequence, `[n_seqs]`.
    pub slots: Vec<i32>,
    /// Whether the slot holds the state of the sequence's earlier tokens, `[n_seqs]`.
    pub has_initial: Vec<bool>,
    /// Tokens whose logits are wanted, indices into `ids`, ascending.
    pub logits_rows: Vec<u32>,
}

impl Batch {
    /// Number of sequences.
    pub fn n_seqs(&self) -> usize {
        self.seq_lens.len()
    }

    /// Number of tokens.
    pub fn total_tokens(&self) -> usize {
        self.ids.len()
    }

    /// The last token of each sequence.
    pub fn last_rows(&self) -> Arc<[RowId]> {
        self.cu_seqlens[1..].iter().map(|&end| self.rows[end as usize - 1]).collect()
    }

    /// `cu_seqlens` of the sequences that prefill, counted from the first of their tokens.
    pub fn prefill_cu_seqlens(&self) -> Vec<u32> {
        let start = self.cu_seqlens[self.n_decode];
        self.cu_seqlens[self.n_decode..].iter().map(|end| end - start).collect()
    }
}
