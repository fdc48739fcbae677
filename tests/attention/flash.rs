//! `attention/flash`. Every call here goes through shuffled pages, with NaN in each slot and padding that no query
//! sees and page numbers that do not exist in each entry that no query needs.

mod controls;
mod errors;
mod vs_definition;
mod vs_itself;
mod vs_paper;

use std::ops::Range;

use half::bf16;
use vt_kernels::attention::KvElement;
use vt_kernels::attention::flash::{Inputs, Plan, Shape};
use vt_kernels::{Arch, Element, Rows, RowsMut};

use crate::support::strategies::Rng;

/// A layer.
#[derive(Clone, Copy, Debug)]
struct Setup {
    arch: Arch,
    shape: Shape,
    softmax_scale: f32,
    k_scale: f32,
    v_scale: f32,
}

/// Queries, keys and values of every position of one sequence.
#[derive(Clone, Debug)]
struct Tokens<KV> {
    q: Vec<bf16>,
    k: Vec<KV>,
    v: Vec<KV>,
}

/// Some positions of a sequence as queries; their keys are all up to the last.
#[derive(Clone, Debug)]
struct Part<'a, KV> {
    tokens: &'a Tokens<KV>,
    queries: Range<usize>,
}

fn setup(n_heads: usize, n_kv_heads: usize, head_dim: usize) -> Setup {
    let shape = Shape { n_heads, n_kv_heads, head_dim, block_size: 16, window: None };
    let softmax_scale = (head_dim as f32).sqrt().recip();
    Setup { arch: Arch::Sm90a, shape, softmax_scale, k_scale: 1.0, v_scale: 1.0 }
}

impl<KV: KvElement> Tokens<KV> {
    fn random(setup: &Setup, len: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let Shape { n_heads, n_kv_heads, head_dim, .. } = setup.shape;
        let q = rng.normals_bf16(len * n_heads * head_dim, 1.5);
        let mut kv =
            || (0..len * n_kv_heads * head_dim).map(|_| KV::quantize(rng.normal(1.0), 1.0)).collect();
        Tokens { q, k: kv(), v: kv() }
    }

    fn part(&self, queries: Range<usize>) -> Part<'_, KV> {
        Part { tokens: self, queries }
    }
}

impl Setup {
    fn q_dim(&self) -> usize {
        self.shape.n_heads * self.shape.head_dim
    }

    fn kv_dim(&self) -> usize {
        self.shape.n_kv_heads * self.shape.head_dim
    }

    fn visible(&self, position: usize) -> Range<usize> {
        let end = position + 1;
        self.shape.window.map_or(0, |window| end.saturating_sub(window))..end
    }

    /// One call for a batch: the output of each part, `[queries, n_heads * head_dim]`.
    fn attend_in<KV: KvElement, O: Element>(&self, parts: &[Part<'_, KV>], seed: u64) -> Vec<Vec<O>> {
        let (mut rng, block_size, kv_dim, q_dim) =
            (Rng::new(seed), self.shape.block_size, self.kv_dim(), self.q_dim());
        let poison = KV::quantize(f32::NAN, 1.0);
        let blocks = |part: &Part<'_, KV>| part.queries.end.div_ceil(block_size);
        let mut pages: Vec<u32> = (0..parts.iter().map(blocks).sum::<usize>() as u32 + 2).collect();
        let n_blocks = pages.len();
        (0..n_blocks).for_each(|i| pages.swap(i, i + rng.below(n_blocks - i)));
        let max_blocks = parts.iter().map(blocks).max().unwrap_or(0) + 1;

        // A row of the cache, of the table, of q and of out has one column of padding.
        let mut caches = [(); 2].map(|()| vec![poison; n_blocks * block_size * (kv_dim + 1)]);
        let mut table = vec![u32::MAX; parts.len() * (max_blocks + 1)];
        let (mut q, mut cu_seqlens, mut seq_lens) = (Vec::new(), vec![0], Vec::new());
        for (part, table) in parts.iter().zip(table.chunks_mut(max_blocks + 1)) {
            let queries = part.queries.clone();
            let seen = self.visible(queries.start).start..queries.end;
            for position in if queries.is_empty() { 0..0 } else { seen } {
                let page = &mut table[position / block_size];
                *page = if *page == u32::MAX { pages.pop().unwrap() } else { *page };
                let slot = *page as usize * block_size + position % block_size;
                for (cache, x) in caches.iter_mut().zip([&part.tokens.k, &part.tokens.v]) {
                    cache[slot * (kv_dim + 1)..][..kv_dim].copy_from_slice(&x[position * kv_dim..][..kv_dim]);
                }
            }
            for position in queries.clone() {
                q.extend_from_slice(&part.tokens.q[position * q_dim..][..q_dim]);
                q.push(bf16::NAN);
            }
            cu_seqlens.push(cu_seqlens[cu_seqlens.len() - 1] + queries.len() as u32);
            seq_lens.push(queries.end as u32);
        }
        let total = cu_seqlens[parts.len()] as usize;
        let mut out = vec![O::from_f32(f32::NEG_INFINITY); total * (q_dim + 1)];
        let slots = n_blocks * block_size;
        let inputs = Inputs {
            q: Rows::strided("q", &q, total, q_dim, q_dim + 1).unwrap(),
            k_cache: Rows::strided("k_cache", &caches[0], slots, kv_dim, kv_dim + 1).unwrap(),
            v_cache: Rows::strided("v_cache", &caches[1], slots, kv_dim, kv_dim + 1).unwrap(),
            block_table: Rows::strided("table", &table, parts.len(), max_blocks, max_blocks + 1).unwrap(),
            cu_seqlens: &cu_seqlens,
            seq_lens: &seq_lens,
            softmax_scale: self.softmax_scale,
            k_scale: self.k_scale,
            v_scale: self.v_scale,
        };
        let mut view = RowsMut::strided("out", &mut out, total, q_dim, q_dim + 1).unwrap();
        Plan::new(self.arch, self.shape).unwrap().reference(&inputs, &mut view).unwrap();
        assert!(
            out.chunks(q_dim + 1).all(|row| row[q_dim] == O::from_f32(f32::NEG_INFINITY)),
            "padding was written"
        );
        let rows = |s: usize| cu_seqlens[s] as usize..cu_seqlens[s + 1] as usize;
        let output = |s| rows(s).flat_map(|i| out[i * (q_dim + 1)..][..q_dim].to_vec()).collect();
        (0..parts.len()).map(output).collect()
    }

    /// [`Setup::attend_in`] f32: rounding to bf16 would hide most of what the tests look for.
    fn attend<KV: KvElement>(&self, parts: &[Part<'_, KV>], seed: u64) -> Vec<Vec<f32>> {
        self.attend_in(parts, seed)
    }

    /// [`Setup::attend`] for one part.
    fn alone<KV: KvElement>(&self, tokens: &Tokens<KV>, queries: Range<usize>) -> Vec<f32> {
        self.attend(&[tokens.part(queries)], 1).remove(0)
    }
}
