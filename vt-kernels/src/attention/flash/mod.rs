//! FlashAttention-2 over a paged cache: prefill on a cached prefix and decode, any mix in one batch.
//!
//! `out = softmax(softmax_scale * q·kᵀ) · v`, causal. Query `i` of a sequence with `n` queries sits at position
//! `p = seq_len - n + i` and sees the keys `0..=p`, or `p - window + 1..=p` under a sliding window. A decode is
//! a sequence with one query. Head `h` reads key-value head `h / (n_heads / n_kv_heads)`.
//!
//! # Order of reduction
//! Keys are cut into blocks of [`KV_BLOCK`] and splits of [`KV_SPLIT`], both counted from position 0. A query
//! head's row is defined alone: neither the other rows of its tile, nor the pages, nor how a prompt was cut into
//! chunks enters. `mma(acc, a, b)` is a chain of `mma.sync.m16n8k16` steps over ascending `k`
//! ([`mma::fold`](crate::mma::fold)); a tail of `k` is padded with zeros; every other operation is one f32
//! operation rounded to nearest even; `exp2` is [`math::exp2`](crate::math::exp2).
//!
//! ```text
//! scale = (softmax_scale * k_scale) * LOG2_E                      // math::table::LOG2_E
//! base(m) = m == -inf ? 0 : m
//! M = -inf, L = 0, O[0..head_dim] = 0
//! for split in splits, ascending:                                 // 512 keys
//!     m = -inf, l = 0, o[0..head_dim] = 0
//!     for block in blocks of split, ascending:                    // 64 keys
//!         s[j] = mma(0, q, k[j]) * scale                          // k-steps over head_dim
//!         s[j] = -inf where the row does not see key j
//!         m_new = max(m, s[0], .., s[63])                         // a NaN does not take part
//!         alpha = exp2(m - base(m_new))
//!         p[j]  = exp2(s[j] - base(m_new))                        // +0 for a key that is not seen
//!         lane[c] = 0 + p[8t + 2c] + p[8t + 2c + 1] + ..          // c in 0..4; t = 0..8 ascending
//!         sum = (lane[0] + lane[2]) + (lane[1] + lane[3])         // butterfly, distance 2 then 1
//!         l = fma(l, alpha, sum)
//!         o = mma(o * alpha, bf16(p), v)                          // into the live accumulator, 16 keys a step
//!         m = m_new
//!     M_new = max(M, m)
//!     a = exp2(M - base(M_new)), b = exp2(m - base(M_new))
//!     L = fma(L, a, l * b)
//!     O = fma(O, a, o * b)
//!     M = M_new
//! inverse = v_scale / (L == 0 ? 1 : L)
//! out = round(fma(O, inverse, +0))                                // to the type of out
//! ```
//!
//! A key that the row does not see is absent: `p` is +0 and its value counts as +0. A block or split of which the
//! row sees nothing therefore changes nothing (`alpha` = 1, or `l` = `o` = 0; a zero step of an MMA keeps a finite
//! accumulator; the last fma makes a zero of either sign +0), so it may be computed or left out, as suits the
//! tile. The first split is taken over as it is (`a` = 0 or `L` = `O` = 0, `b` = 1).
//!
//! # Shapes and layouts
//! | argument | shape | type |
//! |---|---|---|
//! | `q` | `[total_q, n_heads * head_dim]`, strided | bf16 |
//! | `out` | `[total_q, n_heads * head_dim]`, strided | bf16, f16 or f32 |
//! | `k_cache`, `v_cache` | `[n_blocks * block_size, n_kv_heads * head_dim]`, strided | bf16 or e4m3 |
//! | `block_table` | `[n_seqs, max_blocks]`, strided: page of the positions `block_size * column ..` | u32 |
//! | `cu_seqlens` | `[n_seqs + 1]`, of the queries, ascending from 0 | u32 |
//! | `seq_lens` | `[n_seqs]`, keys including those of the new tokens | u32 |
//!
//! Entries of `block_table` for pages that no query of the sequence sees, and slots that no query sees, may hold
//! anything. A sequence may have no query; one of `seq_len` 0 has none.
//!
//! # Rounding
//! e4m3 codes are exact in bf16; their scales enter through `scale` and `inverse`. `p` is rounded to bf16 for
//! the product with `v`, not for the sum. One rounding to `out` at the end.
//!
//! # Special values
//! A NaN among the keys or values that a row sees makes its output NaN (a key: every element; a value: that
//! element), and so does a score of +∞; rows that do not see it keep their bits. An infinite value gives ±∞, or
//! NaN where its weight is 0. Where every score is −∞ the weights are 0 and so is the output.
//!
//! # Arms
//! | arch | arm | evidence |
//! |---|---|---|
//! | sm_90a | `mma.sync.m16n8k16` | modelled, on a measured MMA |
//! | sm_121a | `mma.sync.m16n8k16` | modelled, on an MMA from literature |
//!
//! # Source
//! Dao, "FlashAttention-2" (arXiv 2307.08691); split keys as in Flash-Decoding.
//!
//! ```
//! use half::bf16;
//! use vt_kernels::{Arch, Rows, RowsMut, attention::flash};
//! let shape = flash::Shape { n_heads: 2, n_kv_heads: 1, head_dim: 8, block_size: 1, window: None };
//! let plan = flash::Plan::new(Arch::Sm90a, shape)?;
//! // One decode after one cached token: equal scores, so the mean of the two values.
//! let q = [bf16::ZERO; 16];
//! let k = [bf16::ONE; 16];
//! let v: Vec<bf16> = (0..16).map(|i| bf16::from_f32((i / 8) as f32)).collect();
//! let mut out = [bf16::ZERO; 16];
//! let inputs = flash::Inputs {
//!     q: Rows::new("q", &q, 1, 16)?,
//!     k_cache: Rows::new("k_cache", &k, 2, 8)?,
//!     v_cache: Rows::new("v_cache", &v, 2, 8)?,
//!     block_table: Rows::new("block_table", &[1, 0], 1, 2)?,
//!     cu_seqlens: &[0, 1],
//!     seq_lens: &[2],
//!     softmax_scale: 0.5,
//!     k_scale: 1.0,
//!     v_scale: 1.0,
//! };
//! plan.reference(&inputs, &mut RowsMut::new("out", &mut out, 1, 16)?)?;
//! assert_eq!(out, [bf16::from_f32(0.5); 16]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;
mod softmax;

use std::ops::Range;

use half::bf16;

use super::{KvElement, check_heads, check_scale};
use crate::math::table::LOG2_E;
use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported, checks};

/// Keys between two rescalings of the running sums.
pub const KV_BLOCK: usize = 64;
/// Keys whose sums are formed apart from the others', and then combined.
pub const KV_SPLIT: usize = 512;

/// Sizes of an attention layer and of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Heads of queries: a multiple of `n_kv_heads`.
    pub n_heads: usize,
    /// Heads of keys and of values.
    pub n_kv_heads: usize,
    /// Elements in a head: a multiple of 8 from 8 to 256.
    pub head_dim: usize,
    /// Tokens in a page.
    pub block_size: usize,
    /// Keys that a query sees, itself included; all of them if `None`.
    pub window: Option<usize>,
}

/// Queries, paged keys and values, and where each sequence has them.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, KV> {
    /// `[total_q, n_heads * head_dim]`.
    pub q: Rows<'a, bf16>,
    /// `[n_blocks * block_size, n_kv_heads * head_dim]`.
    pub k_cache: Rows<'a, KV>,
    /// As `k_cache`.
    pub v_cache: Rows<'a, KV>,
    /// `[n_seqs, max_blocks]`.
    pub block_table: Rows<'a, u32>,
    /// `[n_seqs + 1]`: queries `cu_seqlens[s]..cu_seqlens[s + 1]` belong to sequence `s`.
    pub cu_seqlens: &'a [u32],
    /// `[n_seqs]`: keys of each sequence, those of its queries included.
    pub seq_lens: &'a [u32],
    /// Factor of `q·k`, usually `head_dim^-0.5`.
    pub softmax_scale: f32,
    /// What a code of `k_cache` stands for, over the code; 1 for bf16.
    pub k_scale: f32,
    /// What a code of `v_cache` stands for, over the code; 1 for bf16.
    pub v_scale: f32,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    match arch {
        Arch::Sm90a | Arch::Sm121a => Ok(()),
        Arch::Sm80 | Arch::Sm89 => {
            let reason = "no device arm is planned".into();
            Err(Unsupported { kernel: "attention/flash", arch, reason })
        }
    }
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    arch: Arch,
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        check_heads(shape.n_kv_heads, shape.head_dim)?;
        let Shape { n_heads, n_kv_heads, .. } = shape;
        if n_heads == 0 || !n_heads.is_multiple_of(n_kv_heads) {
            return Err(Error::value("n_heads", n_heads, format!("a multiple of n_kv_heads = {n_kv_heads}")));
        }
        if n_heads.checked_mul(shape.head_dim).is_none() {
            return Err(Error::value("n_heads", n_heads, "n_heads * head_dim to fit a usize"));
        }
        if shape.block_size == 0 {
            return Err(Error::value("block_size", 0, "at least 1"));
        }
        if shape.window == Some(0) {
            return Err(Error::value("window", 0, "at least 1, or none"));
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
    /// Shapes that do not fit; `cu_seqlens` that descends or does not cover `q`; a sequence with more queries
    /// than keys; a page that the cache does not have where a query needs one; a scale that is not finite, a
    /// cache's scale that is not positive, or not 1 for bf16. Nothing is written then.
    pub fn reference<KV: KvElement, O: Element>(
        &self,
        inputs: &Inputs<'_, KV>,
        out: &mut RowsMut<'_, O>,
    ) -> Result<()> {
        self.check(inputs, out)?;
        reference::run(self.arch, &self.shape, inputs, out)
    }

    fn check<KV: KvElement, O>(&self, inputs: &Inputs<'_, KV>, out: &RowsMut<'_, O>) -> Result<()> {
        let Shape { n_heads, n_kv_heads, head_dim, block_size, .. } = self.shape;
        let Inputs { q, k_cache, v_cache, block_table, .. } = inputs;
        q.expect("q", q.rows(), n_heads * head_dim, "[total_q, n_heads * head_dim]")?;
        out.expect("out", q.rows(), n_heads * head_dim, "[total_q, n_heads * head_dim]")?;
        let (slots, cols) = (k_cache.rows(), n_kv_heads * head_dim);
        k_cache.expect("k_cache", slots, cols, "[n_slots, n_kv_heads * head_dim]")?;
        v_cache.expect("v_cache", slots, cols, "[n_slots, n_kv_heads * head_dim]")?;
        if !slots.is_multiple_of(block_size) {
            let expected = format!("[n_blocks * block_size, ..], block_size = {block_size}");
            return Err(Error::shape("k_cache", &[slots, cols], expected));
        }
        let n_seqs = checks::cu_seqlens(inputs.cu_seqlens, q.rows())?;
        checks::per("seq_lens", inputs.seq_lens, n_seqs, "n_seqs")?;
        block_table.expect("block_table", n_seqs, block_table.cols(), "[n_seqs, max_blocks]")?;
        check_scale::<KV>("k_scale", inputs.k_scale)?;
        check_scale::<KV>("v_scale", inputs.v_scale)?;
        if !scale(inputs).is_finite() {
            let expected = "softmax_scale * k_scale * log2(e) to be finite";
            return Err(Error::value("softmax_scale", inputs.softmax_scale, expected));
        }
        (0..n_seqs).try_for_each(|seq| self.check_pages(inputs, seq, slots / block_size))
    }

    fn check_pages<KV>(&self, inputs: &Inputs<'_, KV>, seq: usize, n_blocks: usize) -> Result<()> {
        let (queries, seq_len) = (inputs.queries(seq).len(), inputs.seq_lens[seq] as usize);
        if queries > seq_len {
            let expected = format!("at least its {queries} queries");
            return Err(Error::value("seq_lens", format!("{seq_len} at {seq}"), expected));
        }
        if queries == 0 {
            return Ok(());
        }
        let pages = inputs.block_table.row(seq);
        let first = self.shape.visible(seq_len - queries).start / self.shape.block_size;
        let last = (seq_len - 1) / self.shape.block_size;
        let Some(needed) = pages.get(first..=last) else {
            let expected = format!("[n_seqs, at least {} blocks for sequence {seq}]", last + 1);
            return Err(Error::shape("block_table", &[inputs.seq_lens.len(), pages.len()], expected));
        };
        match needed.iter().position(|&page| page as usize >= n_blocks) {
            Some(at) => {
                let got = format!("{} at [{seq}, {}]", needed[at], first + at);
                Err(Error::value("block_table", got, format!("below the cache's {n_blocks} blocks")))
            }
            None => Ok(()),
        }
    }
}

impl Shape {
    /// Keys that the query at `position` sees.
    fn visible(&self, position: usize) -> Range<usize> {
        let end = position + 1;
        self.window.map_or(0, |window| end.saturating_sub(window))..end
    }
}

impl<KV> Inputs<'_, KV> {
    /// Rows of `q` of a sequence.
    fn queries(&self, seq: usize) -> Range<usize> {
        self.cu_seqlens[seq] as usize..self.cu_seqlens[seq + 1] as usize
    }
}

/// Factor of `q·k` in base-2 logits.
fn scale<KV>(inputs: &Inputs<'_, KV>) -> f32 {
    inputs.softmax_scale * inputs.k_scale * LOG2_E
}
