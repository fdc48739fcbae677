//! Online softmax of the rows of a tile: one block of keys, and one split after another.

use std::ops::Range;

use half::bf16;

use super::KV_BLOCK;
use crate::Element;
use crate::math::exp2;

/// Running maximum, sum and weighted values of each row of a tile, over the keys so far.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// Largest base-2 logit.
    pub(super) m: Vec<f32>,
    /// Sum of `2^(s - m)`.
    pub(super) l: Vec<f32>,
    /// `[rows, head_dim]`: sum of `2^(s - m) * v`.
    pub(super) o: Vec<f32>,
}

impl Running {
    /// No keys yet.
    pub(super) fn new(rows: usize, head_dim: usize) -> Self {
        Running { m: vec![f32::NEG_INFINITY; rows], l: vec![0.0; rows], o: vec![0.0; rows * head_dim] }
    }

    /// Takes one block of keys into `m` and `l`, rescales `o` and leaves the weights in `p`, `[rows, KV_BLOCK]`.
    ///
    /// `scores` `[rows, KV_BLOCK]` is `q·k`; `visible` are the keys of the block that each row sees.
    pub(super) fn block(&mut self, scores: &[f32], scale: f32, visible: &[Range<usize>], p: &mut [bf16]) {
        pulp::Arch::new().dispatch(Block { running: self, scores, scale, visible, p });
    }

    /// Takes the sums of a later split.
    pub(super) fn combine(&mut self, split: &Running) {
        pulp::Arch::new().dispatch(Combine { running: self, split });
    }

    /// `o / l * v_scale` of row `row`, rounded to `out`.
    pub(super) fn finish<O: Element>(&self, row: usize, v_scale: f32, out: &mut [O]) {
        let l = self.l[row];
        let inverse = v_scale / if l == 0.0 { 1.0 } else { l };
        let o = &self.o[row * out.len()..][..out.len()];
        pulp::Arch::new().dispatch(Finish { o, inverse, out });
    }
}

/// What is subtracted from logits whose maximum is `m`: differences with −∞ stay −∞, not NaN.
#[inline(always)]
fn base(m: f32) -> f32 {
    if m == f32::NEG_INFINITY { 0.0 } else { m }
}

/// The larger; `m` if `s` is NaN.
#[inline(always)]
fn max(m: f32, s: f32) -> f32 {
    if s > m { s } else { m }
}

/// Arguments of [`Running::block`], compiled once for each instruction set of the host.
struct Block<'a> {
    running: &'a mut Running,
    scores: &'a [f32],
    scale: f32,
    visible: &'a [Range<usize>],
    p: &'a mut [bf16],
}

impl pulp::NullaryFnOnce for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Running { m, l, o } = self.running;
        let head_dim = o.len() / m.len();
        let scores = self.scores.as_chunks::<KV_BLOCK>().0.iter();
        let weights = self.p.as_chunks_mut::<KV_BLOCK>().0.iter_mut();
        let rows = m.iter_mut().zip(l).zip(o.chunks_exact_mut(head_dim)).zip(self.visible);
        for (((((m, l), o), visible), scores), weights) in rows.zip(scores).zip(weights) {
            let mut s = [f32::NEG_INFINITY; KV_BLOCK];
            for (j, s) in s.iter_mut().enumerate() {
                let seen = visible.start <= j && j < visible.end;
                *s = if seen { scores[j] * self.scale } else { f32::NEG_INFINITY };
            }
            // A maximum is the same in any order: sixteen at a time.
            let mut largest = [*m; 16];
            for s in s.as_chunks::<16>().0 {
                for i in 0..16 {
                    largest[i] = max(largest[i], s[i]);
                }
            }
            let m_new = largest.into_iter().fold(*m, max);
            let shift = base(m_new);
            let p = s.map(|s| exp2(s - shift));
            let alpha = exp2(*m - shift);
            *l = l.mul_add(alpha, lane_sum(&p));
            *m = m_new;
            for o in o {
                *o *= alpha;
            }
            for (weight, p) in weights.iter_mut().zip(p) {
                *weight = Element::from_f32(p);
            }
        }
    }
}

/// Sum of a row of a block as four threads hold it in accumulators of m16n8: element `j` belongs to lane
/// `(j / 2) % 4`, lanes add in ascending order and join at distances 2, then 1.
#[inline(always)]
fn lane_sum(p: &[f32; KV_BLOCK]) -> f32 {
    let mut lanes = [0.0f32; 4];
    for p in p.as_chunks::<8>().0 {
        for (c, lane) in lanes.iter_mut().enumerate() {
            *lane = *lane + p[2 * c] + p[2 * c + 1];
        }
    }
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
}

/// Arguments of [`Running::combine`].
struct Combine<'a> {
    running: &'a mut Running,
    split: &'a Running,
}

impl pulp::NullaryFnOnce for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Running { m, l, o } = self.running;
        let head_dim = o.len() / m.len();
        let split = self.split.o.chunks_exact(head_dim).zip(self.split.m.iter().zip(&self.split.l));
        let rows = o.chunks_exact_mut(head_dim).zip(m.iter_mut().zip(l));
        for ((o, (m, l)), (split_o, (&split_m, &split_l))) in rows.zip(split) {
            let m_new = max(*m, split_m);
            let a = exp2(*m - base(m_new));
            let b = exp2(split_m - base(m_new));
            *l = l.mul_add(a, split_l * b);
            *m = m_new;
            for (o, split_o) in o.iter_mut().zip(split_o) {
                *o = o.mul_add(a, split_o * b);
            }
        }
    }
}

/// Arguments of the last loop of [`Running::finish`].
struct Finish<'a, O> {
    o: &'a [f32],
    inverse: f32,
    out: &'a mut [O],
}

impl<O: Element> pulp::NullaryFnOnce for Finish<'_, O> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (out, o) in self.out.iter_mut().zip(self.o) {
            *out = Element::from_f32(o.mul_add(self.inverse, 0.0));
        }
    }
}
