//! One chunk of one head.

use super::Shape;
use super::split::{Factor, exact, fold};
use crate::math::exp;
use crate::{Arch, Element, Result, Rows, RowsMut};

/// Rows of a chunk that are computed together; those before them need no later tokens.
const TILE: usize = 64;

/// What the heads of a group share in a chunk.
pub(super) struct Group<'a, T> {
    arch: Arch,
    /// `[tokens, d_state]`.
    b: Rows<'a, T>,
    c: Factor,
    /// `C · B`, `[tokens, tokens]`, valid where the column is not after the row.
    cb: Vec<f32>,
}

impl<'a, T: Element> Group<'a, T> {
    pub(super) fn new(arch: Arch, b: Rows<'a, T>, c: Rows<'a, T>) -> Result<Self> {
        let (tokens, d_state) = (b.rows(), b.cols());
        let factor = |rows: Rows<'a, T>| {
            Factor::new(d_state, tokens, exact::<T>(), move |n, i| rows.row(i)[n].to_f32())
        };
        let c = factor(c);
        let mut cb = vec![0.0; tokens * tokens];
        fold(arch, d_state, &c, &factor(b), &mut RowsMut::new("cb", &mut cb, tokens, tokens)?)?;
        Ok(Group { arch, b, c, cb })
    }
}

/// Step sizes of a head in a chunk, and their running sums times `A`.
pub(super) struct Steps {
    dt: Vec<f32>,
    sums: Vec<f32>,
}

impl Steps {
    pub(super) fn new(dt: Vec<f32>, a: f32) -> Self {
        let mut sum = 0.0;
        let sums = dt
            .iter()
            .map(|dt| {
                sum += dt * a;
                sum
            })
            .collect();
        Steps { dt, sums }
    }

    /// `exp(min(c_i − c_j, 0))`.
    #[inline(always)]
    fn decay(&self, i: usize, j: usize) -> f32 {
        let difference = self.sums[i] - self.sums[j];
        exp(if difference > 0.0 { 0.0 } else { difference })
    }
}

/// `y` `[tokens, head_dim]` without `D` and `z`, and the state `[d_state, head_dim]` after the chunk.
pub(super) fn head<T: Element>(
    shape: &Shape,
    group: &Group<'_, T>,
    steps: &Steps,
    x: Rows<'_, T>,
    state: &mut [f32],
) -> Result<Vec<f32>> {
    let (tokens, head_dim, d_state) = (x.rows(), shape.head_dim, shape.d_state);
    let mut y = vec![0.0; tokens * head_dim];
    let before = Factor::new(d_state, head_dim, false, |n, p| state[n * head_dim + p]);
    fold(group.arch, d_state, &group.c, &before, &mut RowsMut::new("y", &mut y, tokens, head_dim)?)?;
    for (y, &sum) in y.chunks_exact_mut(head_dim).zip(&steps.sums) {
        let decay = exp(sum);
        y.iter_mut().for_each(|y| *y *= decay);
    }
    within(group, steps, x, &mut y)?;

    let last = tokens - 1;
    let decay = exp(steps.sums[last]);
    let weights: Vec<f32> = (0..tokens).map(|i| steps.decay(last, i) * steps.dt[i]).collect();
    let scaled = Factor::new(tokens, d_state, false, |i, n| group.b.row(i)[n].to_f32() * weights[i]);
    let x = Factor::new(tokens, head_dim, exact::<T>(), |i, p| x.row(i)[p].to_f32());
    state.iter_mut().for_each(|s| *s *= decay);
    // [d_state, head_dim] = scaled Bᵀ · x: the factor that is split stands on the left.
    fold(group.arch, tokens, &scaled, &x, &mut RowsMut::new("state", state, d_state, head_dim)?)?;
    Ok(y)
}

/// Adds `Σ_(j ≤ i) G_ij · x_j` to `y`.
fn within<T: Element>(group: &Group<'_, T>, steps: &Steps, x: Rows<'_, T>, y: &mut [f32]) -> Result<()> {
    let (tokens, head_dim) = (x.rows(), x.cols());
    let right = Factor::new(tokens, head_dim, exact::<T>(), |j, p| x.row(j)[p].to_f32());
    // A zero of G meets a later token's x: 0 · ∞ must not reach an earlier row, so such rows go one by one.
    let tile = if right.finite() { TILE } else { 1 };
    for start in (0..tokens).step_by(tile) {
        let rows = start..tokens.min(start + tile);
        let g = Factor::new(rows.end, rows.len(), false, |j, m| {
            let i = start + m;
            if j > i { 0.0 } else { group.cb[i * tokens + j] * steps.decay(i, j) * steps.dt[j] }
        });
        let y = &mut y[rows.start * head_dim..rows.end * head_dim];
        let mut y = RowsMut::new("y", y, rows.len(), head_dim)?;
        fold(group.arch, rows.end, &g, &right, &mut y)?;
    }
    Ok(())
}
