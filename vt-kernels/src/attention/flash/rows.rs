//! Rows of queries: running softmax over blocks, splits joined at the end.

use std::ops::Range;

use half::bf16;

use super::KV_BLOCK;
use crate::math::exp2;
use crate::mma::fold;
use crate::{Arch, Element, Result, Rows, RowsMut};

/// 64 keys and values from a position on, `[KV_BLOCK, head_dim]` each.
pub(super) struct Block {
    pub(super) start: usize,
    pub(super) k: Vec<bf16>,
    pub(super) v: Vec<bf16>,
}

/// Maximum, sums by lane, and unnormalised output of each row.
struct State {
    m: Vec<f32>,
    l: Vec<[f32; 4]>,
    o: Vec<f32>,
}

impl State {
    fn new(rows: usize, head_dim: usize) -> Self {
        State { m: vec![f32::NEG_INFINITY; rows], l: vec![[0.0; 4]; rows], o: vec![0.0; rows * head_dim] }
    }
}

/// Queries `[rows, head_dim]` with the positions that each sees.
pub(super) struct QueryRows {
    arch: Arch,
    head_dim: usize,
    q: Vec<bf16>,
    seen: Vec<Range<usize>>,
    state: State,
    /// Maximum, sum and output of each split that is done.
    splits: Vec<(Vec<f32>, Vec<f32>, Vec<f32>)>,
}

impl QueryRows {
    pub(super) fn new(arch: Arch, head_dim: usize, q: Vec<bf16>, seen: Vec<Range<usize>>) -> Self {
        let state = State::new(seen.len(), head_dim);
        QueryRows { arch, head_dim, q, seen, state, splits: Vec::new() }
    }

    /// Whether any row sees any of the positions.
    pub(super) fn see(&self, positions: &Range<usize>) -> bool {
        self.seen.iter().any(|seen| seen.start < positions.end && positions.start < seen.end)
    }

    /// Takes a block of keys and values.
    pub(super) fn fold(&mut self, block: &Block, scale: f32) -> Result<()> {
        let (rows, head_dim) = (self.seen.len(), self.head_dim);
        let mut s = vec![0.0; rows * KV_BLOCK];
        let q = Rows::new("q", &self.q, rows, head_dim)?;
        let k = Rows::new("k", &block.k, KV_BLOCK, head_dim)?;
        fold::bf16(self.arch, q, k, &mut RowsMut::new("s", &mut s, rows, KV_BLOCK)?)?;
        let mut p = vec![bf16::ZERO; rows * KV_BLOCK];
        for (row, s) in s.chunks_exact_mut(KV_BLOCK).enumerate() {
            let seen = within(&self.seen[row], block.start);
            if !seen.is_empty() {
                let o = &mut self.state.o[row * head_dim..][..head_dim];
                let (m, l) = (&mut self.state.m[row], &mut self.state.l[row]);
                let p = &mut p[row * KV_BLOCK..][..KV_BLOCK];
                pulp::Arch::new().dispatch(
                    #[inline(always)]
                    || softmax(&mut s[seen.clone()], seen.start, scale, m, l, o, p),
                );
            }
        }
        self.add_values(block, &p)
    }

    /// `o` += `p · v` for the rows that see the block.
    fn add_values(&mut self, block: &Block, p: &[bf16]) -> Result<()> {
        let (rows, head_dim, arch) = (self.seen.len(), self.head_dim, self.arch);
        let v = Rows::new("v", &block.v, KV_BLOCK, head_dim)?;
        if block.v.iter().all(|v| v.is_finite()) {
            // Rows that see nothing meet zeros here: that turns −0 to +0 at most, as the end does anyway.
            let mut o = RowsMut::new("o", &mut self.state.o, rows, head_dim)?;
            return fold::bf16_kn(arch, Rows::new("p", p, rows, KV_BLOCK)?, v, &mut o);
        }
        // 0 · ∞ of a value that a row does not see must not reach it.
        for (row, o) in self.state.o.chunks_exact_mut(head_dim).enumerate() {
            let seen = within(&self.seen[row], block.start);
            let mut masked = vec![bf16::ZERO; block.v.len()];
            let span = seen.start * head_dim..seen.end * head_dim;
            masked[span.clone()].copy_from_slice(&block.v[span]);
            let p = Rows::new("p", &p[row * KV_BLOCK..][..KV_BLOCK], 1, KV_BLOCK)?;
            let v = Rows::new("v", &masked, KV_BLOCK, head_dim)?;
            fold::bf16_kn(arch, p, v, &mut RowsMut::new("o", o, 1, head_dim)?)?;
        }
        Ok(())
    }

    /// Puts a split away and begins the next.
    pub(super) fn end_split(&mut self) {
        let done = std::mem::replace(&mut self.state, State::new(self.seen.len(), self.head_dim));
        let sums = done.l.iter().map(|l| (l[0] + l[2]) + (l[1] + l[3])).collect();
        self.splits.push((done.m, sums, done.o));
    }

    /// Joins the splits: outputs `[rows, head_dim]`.
    pub(super) fn finish(&self, v_scale: f32) -> Vec<f32> {
        let mut out = vec![0.0; self.seen.len() * self.head_dim];
        for (row, out) in out.chunks_exact_mut(self.head_dim).enumerate() {
            let seen = &self.seen[row];
            let visible = |split: usize| {
                let keys = split * super::KV_SPLIT..(split + 1) * super::KV_SPLIT;
                seen.start < keys.end && keys.start < seen.end
            };
            let splits =
                || self.splits.iter().enumerate().filter(|(split, _)| visible(*split)).map(|(_, s)| s);
            let m = splits().map(|(m, ..)| m[row]).fold(f32::NEG_INFINITY, f32::max);
            let mut l = 0.0f32;
            for (split_m, split_l, split_o) in splits() {
                let weight = exp2(split_m[row] - m);
                l = split_l[row].mul_add(weight, l);
                for (out, o) in out.iter_mut().zip(&split_o[row * self.head_dim..]) {
                    *out = o.mul_add(weight, *out);
                }
            }
            if !seen.is_empty() {
                let inverse = 1.0 / l;
                out.iter_mut().for_each(|o| *o = *o * inverse * v_scale + 0.0);
            }
        }
        out
    }
}

/// The part of `seen` that lies in the block from `start` on, counted from there.
fn within(seen: &Range<usize>, start: usize) -> Range<usize> {
    let end = seen.end.clamp(start, start + KV_BLOCK) - start;
    let first = seen.start.clamp(start, start + KV_BLOCK) - start;
    first..end.max(first)
}

/// One row: scores `s` of the keys it sees, the first of them `first` in the block.
#[inline(always)]
fn softmax(
    s: &mut [f32],
    first: usize,
    scale: f32,
    m: &mut f32,
    l: &mut [f32; 4],
    o: &mut [f32],
    p: &mut [bf16],
) {
    let mut largest = *m;
    for s in s.iter_mut() {
        *s *= scale;
        largest = largest.max(*s);
    }
    // The first block of a split has nothing to rescale: exp2(−∞) is 0, and −∞ − (−∞) must not make a NaN of it.
    let alpha = if *m == f32::NEG_INFINITY { 0.0 } else { exp2(*m - largest) };
    *m = largest;
    l.iter_mut().for_each(|l| *l *= alpha);
    o.iter_mut().for_each(|o| *o *= alpha);
    for s in s.iter_mut() {
        *s = exp2(*s - largest);
    }
    for (i, &value) in s.iter().enumerate() {
        let j = first + i;
        l[j % 8 / 2] += value;
        p[j] = Element::from_f32(value);
    }
}
