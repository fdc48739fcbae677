//! Causal attention of packed sequences over a paged cache: prefill, prefill behind a prefix, and decode, which is a
//! sequence with one query.
//!
//! Query `i` of a sequence with `n` queries stands at position `seq_len − n + i` and sees keys 0 to its own position,
//! of a window the last `window` of them. `out = Σ_j softmax_j(q · k_j · softmax_scale) v_j`.
//!
//! # Order of reduction
//! A row's bits depend on its position, its keys and the shape alone: never on which queries are computed with it, on
//! the pages' numbers or the size of a page. For one query and head, with `c = (softmax_scale · log2 e) · k_scale`:
//!
//! ```text
//! for each split of 512 keys, counted from position 0:
//!     m = −∞; l[0..4] = 0; o = 0
//!     for each block of 64 keys, counted from position 0, that has a key the query sees:
//!         s_j = fold over head_dim of q · k_j (m16n8k16, from zero) · c
//!         m'  = max(m, max_j s_j);  α = exp2(m − m');  m = m'
//!         p_j = exp2(s_j − m), +0 for keys that are not seen
//!         l[lane] = l[lane] · α, then + p_j ascending, for lane = (j mod 8) / 2
//!         o = fold over j of bf16(p_j) · v_j (m16n8k16, 4 steps), from o · α
//!     l = (l[0] + l[2]) + (l[1] + l[3])
//! m = max over splits;  w = exp2(m_split − m)
//! l = Σ fma(l_split, w, l), o = Σ fma(o_split, w, o), ascending from +0
//! out = o · (1 / l) · v_scale + 0
//! ```
//!
//! Maxima ignore NaN. The last sum turns −0 into +0. A query that sees no key gives zeros. Keys and values that a query does
//! not see do not reach it, NaN and ∞ included.
//!
//! # Shapes and layouts
//! [`Inputs`]; `out`: `[total_q, n_heads · head_dim]` bf16, strided. Head `h` uses key head
//! `h / (n_heads / n_kv_heads)`. Position `p` of a sequence is row
//! `block_table[p / block_size] · block_size + p % block_size` of the caches.
//!
//! # Rounding
//! In f32 but for the folds; `p` is rounded to bf16 for the second fold, not for the sum; the result once.
//! e4m3 keys and values enter the folds exactly.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! FlashAttention-2 (Dao, 2023), algorithm 1; Flash-Decoding for the splits.
//!
//! ```
//! use half::bf16;
//! use vt_kernels::{Arch, Rows, RowsMut, attention::flash};
//! let shape = flash::Shape { n_heads: 1, n_kv_heads: 1, head_dim: 8, block_size: 2, window: None };
//! let plan = flash::Plan::new(Arch::Sm90a, shape)?;
//! let keys = [bf16::ZERO; 32]; // all scores are equal: the mean of the values
//! let values: Vec<bf16> = (0..4).flat_map(|p| [bf16::from_f32(p as f32); 8]).collect();
//! let (q, mut out) = ([bf16::ONE; 16], [bf16::ZERO; 16]);
//! let inputs = flash::Inputs {
//!     q: Rows::new("q", &q, 2, 8)?,
//!     k_cache: Rows::new("k_cache", &keys, 4, 8)?,
//!     v_cache: Rows::new("v_cache", &values, 4, 8)?,
//!     block_table: Rows::new("block_table", &[1, 0], 1, 2)?,
//!     cu_seqlens: &[0, 2],
//!     seq_lens: &[3],
//!     softmax_scale: 1.0,
//!     k_scale: 1.0,
//!     v_scale: 1.0,
//! };
//! plan.reference(&inputs, &mut RowsMut::new("out", &mut out, 2, 8)?)?;
//! assert_eq!(out[0].to_f32(), 2.5); // position 1 sees rows 2 and 3
//! assert_eq!(out[8].to_f32(), 1.6640625); // position 2 sees row 0 too: 5/3 rounded
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;
mod rows;

use half::bf16;

use super::{KvElement, check_scale};
use crate::{Arch, Error, Result, Rows, RowsMut, Unsupported, arch, checks};

/// Keys of a block.
pub const KV_BLOCK: usize = 64;
/// Keys of a split.
pub const KV_SPLIT: usize = 512;

/// Sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Heads of queries.
    pub n_heads: usize,
    /// Heads of keys and values; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Elements of a head: a multiple of 8, 8 to 256.
    pub head_dim: usize,
    /// Tokens of a page.
    pub block_size: usize,
    /// How many keys a query sees, its own among them; `None` sees all.
    pub window: Option<usize>,
}

/// What is read.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, KV> {
    /// `[total_q, n_heads · head_dim]`, strided.
    pub q: Rows<'a, bf16>,
    /// `[n_blocks · block_size, n_kv_heads · head_dim]`, strided.
    pub k_cache: Rows<'a, KV>,
    /// As `k_cache`.
    pub v_cache: Rows<'a, KV>,
    /// Pages of each sequence, `[n_seqs, max_blocks]`; entries beyond its length are not read.
    pub block_table: Rows<'a, u32>,
    /// Where each sequence's queries begin, and the end, `[n_seqs + 1]`.
    pub cu_seqlens: &'a [u32],
    /// Keys of each sequence, those of its queries included, `[n_seqs]`.
    pub seq_lens: &'a [u32],
    /// Factor of `q · k`.
    pub softmax_scale: f32,
    /// Scale of e4m3 keys; 1 for bf16.
    pub k_scale: f32,
    /// Scale of e4m3 values; 1 for bf16.
    pub v_scale: f32,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("attention/flash", arch)
}

/// A checked shape on an architecture.
#[derive(Clone, Debug)]
pub struct Plan {
    arch: Arch,
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        let Shape { n_heads, n_kv_heads, head_dim, block_size, window } = shape;
        if n_kv_heads == 0 || n_heads == 0 || !n_heads.is_multiple_of(n_kv_heads) {
            let expected = format!("a divisor of n_heads = {n_heads}, both at least 1");
            return Err(Error::value("n_kv_heads", n_kv_heads, expected));
        }
        if !head_dim.is_multiple_of(8) || !(8..=256).contains(&head_dim) {
            return Err(Error::value("head_dim", head_dim, "a multiple of 8, 8 to 256"));
        }
        if n_heads.checked_mul(head_dim).is_none() {
            return Err(Error::value("n_heads", n_heads, "a size that fits memory"));
        }
        if block_size == 0 {
            return Err(Error::value("block_size", 0, "at least 1"));
        }
        if window == Some(0) {
            return Err(Error::value("window", 0, "at least 1"));
        }
        supported(arch, &shape)?;
        Ok(Plan { arch, shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Attends on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; more queries than keys in a sequence; a page that is needed and not there. Nothing is
    /// written then.
    pub fn reference<KV: KvElement>(
        &self,
        inputs: &Inputs<'_, KV>,
        out: &mut RowsMut<'_, bf16>,
    ) -> Result<()> {
        let Shape { n_heads, n_kv_heads, head_dim, .. } = self.shape;
        let (total_q, rows) = (inputs.q.rows(), inputs.k_cache.rows());
        inputs.q.expect("q", total_q, n_heads * head_dim, "[total_q, n_heads * head_dim]")?;
        let names = "[n_blocks * block_size, n_kv_heads * head_dim]";
        inputs.k_cache.expect("k_cache", rows, n_kv_heads * head_dim, names)?;
        inputs.v_cache.expect("v_cache", rows, n_kv_heads * head_dim, names)?;
        out.expect("out", total_q, n_heads * head_dim, "[total_q, n_heads * head_dim]")?;
        let n_seqs = checks::cu_seqlens(inputs.cu_seqlens, total_q)?;
        checks::per("seq_lens", inputs.seq_lens, n_seqs, "n_seqs")?;
        let max_blocks = inputs.block_table.cols();
        inputs.block_table.expect("block_table", n_seqs, max_blocks, "[n_seqs, max_blocks]")?;
        if !inputs.softmax_scale.is_finite() {
            return Err(Error::value("softmax_scale", inputs.softmax_scale, "a finite number"));
        }
        check_scale::<KV>("k_scale", inputs.k_scale)?;
        check_scale::<KV>("v_scale", inputs.v_scale)?;
        for seq in 0..n_seqs {
            self.check_sequence(inputs, seq, rows / self.shape.block_size)?;
        }
        reference::run(self.arch, &self.shape, inputs, out)
    }

    fn check_sequence<KV>(&self, inputs: &Inputs<'_, KV>, seq: usize, n_blocks: usize) -> Result<()> {
        let queries = (inputs.cu_seqlens[seq + 1] - inputs.cu_seqlens[seq]) as usize;
        let keys = inputs.seq_lens[seq] as usize;
        if keys < queries {
            let expected = format!("at least its {queries} queries");
            return Err(Error::value("seq_lens", format!("{keys} of sequence {seq}"), expected));
        }
        if queries == 0 {
            return Ok(());
        }
        let needed = keys.div_ceil(self.shape.block_size);
        let table = inputs.block_table.row(seq);
        if needed > table.len() {
            let got = [inputs.block_table.rows(), table.len()];
            let expected = format!("[n_seqs, at least {needed} pages for the {keys} keys of sequence {seq}]");
            return Err(Error::shape("block_table", &got, expected));
        }
        match table[..needed].iter().position(|&block| block as usize >= n_blocks) {
            Some(at) => {
                let got = format!("page {} at {at} of sequence {seq}", table[at]);
                Err(Error::value("block_table", got, format!("below the {n_blocks} pages of the cache")))
            }
            None => Ok(()),
        }
    }
}
