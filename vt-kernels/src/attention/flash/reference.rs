//! The definition, a tile of queries at a time: the heads of a group share their keys and values.

use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::softmax::Running;
use super::{Inputs, KV_BLOCK, KV_SPLIT, KvElement, Shape, scale};
use crate::mma::fold;
use crate::{Arch, Element, Result, Rows, RowsMut};

/// Rows of a tile, when a group has no more heads. Bits do not depend on it.
const TILE: usize = 64;

/// Neighbouring queries of one sequence, and the heads that share a key-value head.
struct Tile<'a, 'out, KV, O> {
    arch: Arch,
    shape: &'a Shape,
    inputs: &'a Inputs<'a, KV>,
    seq: usize,
    kv_head: usize,
    /// Rows of `q`.
    queries: Range<usize>,
    /// Of each query, the columns of the group's heads.
    out: Vec<&'out mut [O]>,
}

pub(super) fn run<KV: KvElement, O: Element>(
    arch: Arch,
    shape: &Shape,
    inputs: &Inputs<'_, KV>,
    out: &mut RowsMut<'_, O>,
) -> Result<()> {
    let group = shape.n_heads / shape.n_kv_heads;
    let mut rows = out.rows_mut().into_iter();
    let mut tiles = Vec::new();
    for seq in 0..inputs.seq_lens.len() {
        let all = inputs.queries(seq);
        for first in all.clone().step_by((TILE / group).max(1)) {
            let queries = first..all.end.min(first + (TILE / group).max(1));
            let mut heads: Vec<_> = (0..shape.n_kv_heads).map(|_| Vec::new()).collect();
            for row in rows.by_ref().take(queries.len()) {
                let columns = row.chunks_exact_mut(group * shape.head_dim);
                heads.iter_mut().zip(columns).for_each(|(head, columns)| head.push(columns));
            }
            for (kv_head, out) in heads.into_iter().enumerate() {
                tiles.push(Tile { arch, shape, inputs, seq, kv_head, queries: queries.clone(), out });
            }
        }
    }
    tiles.into_par_iter().try_for_each(Tile::run)
}

impl<KV: KvElement, O: Element> Tile<'_, '_, KV, O> {
    fn run(mut self) -> Result<()> {
        let Shape { n_heads, n_kv_heads, head_dim, .. } = *self.shape;
        let group = n_heads / n_kv_heads;
        let columns = self.kv_head * group * head_dim..(self.kv_head + 1) * group * head_dim;
        let q: Vec<bf16> =
            self.queries.clone().flat_map(|i| &self.inputs.q.row(i)[columns.clone()]).copied().collect();
        // A row is a head of a query, as the columns of `q` have them.
        let visible: Vec<_> = self.queries.clone().flat_map(|i| vec![self.visible(i); group]).collect();
        let q = Rows::new("q", &q, visible.len(), head_dim)?;

        let keys = self.keys();
        let splits = keys.start / KV_SPLIT..keys.end.div_ceil(KV_SPLIT);
        let sums: Vec<Running> =
            splits.into_par_iter().map(|split| self.split(q, &visible, split)).collect::<Result<_>>()?;
        let mut sums = sums.into_iter();
        let Some(mut total) = sums.next() else { return Ok(()) };
        sums.for_each(|split| total.combine(&split));
        let heads = self.out.iter_mut().flat_map(|out| out.chunks_exact_mut(head_dim));
        for (row, out) in heads.enumerate() {
            total.finish(row, self.inputs.v_scale, out);
        }
        Ok(())
    }

    /// Keys that query `i`, a row of `q`, sees.
    fn visible(&self, i: usize) -> Range<usize> {
        let later = self.inputs.queries(self.seq).end - i;
        self.shape.visible(self.inputs.seq_lens[self.seq] as usize - later)
    }

    /// Keys that any query of the tile sees.
    fn keys(&self) -> Range<usize> {
        self.visible(self.queries.start).start..self.visible(self.queries.end - 1).end
    }

    /// The sums of one split.
    fn split(&self, q: Rows<'_, bf16>, visible: &[Range<usize>], split: usize) -> Result<Running> {
        let (rows, head_dim) = (q.rows(), self.shape.head_dim);
        let scale = scale(self.inputs);
        let mut running = Running::new(rows, head_dim);
        let mut scores = vec![0.0; rows * KV_BLOCK];
        let mut p = vec![bf16::ZERO; rows * KV_BLOCK];
        let (mut k, mut v) = (Vec::new(), Vec::new());
        let needed = self.keys();
        let keys = needed.start.max(split * KV_SPLIT)..needed.end.min((split + 1) * KV_SPLIT);
        for block in keys.start / KV_BLOCK..keys.end.div_ceil(KV_BLOCK) {
            let start = block * KV_BLOCK;
            let keys = keys.start.max(start)..keys.end.min(start + KV_BLOCK);
            // Keys after the last that is seen are left out: a step of zeros changes nothing.
            let n = keys.end - start;
            self.gather(&self.inputs.k_cache, start, keys.clone(), &mut k);
            self.gather(&self.inputs.v_cache, start, keys, &mut v);
            let seen: Vec<_> = visible.iter().map(|keys| within(keys, start)).collect();

            scores.fill(0.0);
            let mut view = RowsMut::strided("scores", &mut scores, rows, n, KV_BLOCK)?;
            fold::bf16(self.arch, q, Rows::new("k", &k, n, head_dim)?, &mut view)?;
            running.block(&scores, scale, &seen, &mut p);

            let p = Rows::strided("p", &p, rows, n, KV_BLOCK)?;
            let mut o = RowsMut::new("o", &mut running.o, rows, head_dim)?;
            if v.iter().all(|v| v.is_finite()) {
                fold::bf16_kn(self.arch, p, Rows::new("v", &v, n, head_dim)?, &mut o)?;
            } else {
                fold_seen(self.arch, p, &v, &seen, &mut o)?;
            }
        }
        Ok(running)
    }

    /// The head's rows of the cache for the positions `start..keys.end`, zeros before `keys`.
    fn gather(&self, cache: &Rows<'_, KV>, start: usize, keys: Range<usize>, out: &mut Vec<bf16>) {
        let Shape { head_dim, block_size, .. } = *self.shape;
        let pages = self.inputs.block_table.row(self.seq);
        out.clear();
        out.resize((keys.start - start) * head_dim, bf16::ZERO);
        for position in keys {
            let slot = pages[position / block_size] as usize * block_size + position % block_size;
            let row = &cache.row(slot)[self.kv_head * head_dim..][..head_dim];
            out.extend(row.iter().map(|x| x.to_bf16()));
        }
    }
}

/// Of the block that begins at `start`, the keys that are in `keys`.
fn within(keys: &Range<usize>, start: usize) -> Range<usize> {
    let local = |position: usize| position.saturating_sub(start).min(KV_BLOCK);
    local(keys.start)..local(keys.end)
}

/// `o` + `p · v` where `v` holds NaN or infinity: of each row, only what it sees.
#[cold]
fn fold_seen(
    arch: Arch,
    p: Rows<'_, bf16>,
    v: &[bf16],
    seen: &[Range<usize>],
    o: &mut RowsMut<'_, f32>,
) -> Result<()> {
    let head_dim = o.cols();
    for (row, seen) in seen.iter().enumerate() {
        let mut v = v.to_vec();
        for (key, v) in v.chunks_exact_mut(head_dim).enumerate() {
            if !seen.contains(&key) {
                v.fill(bf16::ZERO);
            }
        }
        let v = Rows::new("v", &v, p.cols(), head_dim)?;
        let mut o = RowsMut::new("o", o.row_mut(row), 1, head_dim)?;
        fold::bf16_kn(arch, p.slice("p", row..row + 1)?, v, &mut o)?;
    }
    Ok(())
}
