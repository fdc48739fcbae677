//! The taps of one sequence, and the product with them.

use crate::host::dispatch;
use crate::math::silu;
use crate::{Element, Rows};

/// Weights by tap, and the last `width` inputs, all `[width][channels]` in f32.
pub(super) struct Window {
    weight: Vec<Vec<f32>>,
    bias: Vec<f32>,
    taps: Vec<Vec<f32>>,
    silu: bool,
}

impl Window {
    pub(super) fn new<W: Element>(weight: &Rows<'_, W>, bias: Option<&[W]>, silu: bool) -> Self {
        let (channels, width) = (weight.rows(), weight.cols());
        let tap = |j: usize| (0..channels).map(|c| weight.row(c)[j].to_f32()).collect();
        let bias = match bias {
            Some(bias) => bias.iter().map(|b| b.to_f32()).collect(),
            None => vec![0.0; channels],
        };
        let taps = vec![vec![0.0; channels]; width];
        Window { weight: (0..width).map(tap).collect(), bias, taps, silu }
    }

    /// Begins a sequence: its earlier inputs from `state` `[channels, width − 1]`, or zeros.
    pub(super) fn begin<S: Element>(&mut self, state: Option<&[S]>) {
        let history = self.taps.len() - 1;
        for (j, tap) in self.taps[..history].iter_mut().enumerate() {
            for (c, x) in tap.iter_mut().enumerate() {
                *x = state.map_or(0.0, |state| state[c * history + j].to_f32());
            }
        }
    }

    /// Takes the next token and writes its output.
    pub(super) fn push<T: Element>(&mut self, x: &[T], out: &mut [T]) {
        let last = self.taps.len() - 1;
        for (tap, x) in self.taps[last].iter_mut().zip(x) {
            *tap = x.to_f32();
        }
        let mut sum = self.bias.clone();
        dispatch(
            #[inline(always)]
            || {
                for (tap, weight) in self.taps.iter().zip(&self.weight) {
                    for ((sum, x), w) in sum.iter_mut().zip(tap).zip(weight) {
                        *sum = x.mul_add(*w, *sum);
                    }
                }
                for (out, sum) in out.iter_mut().zip(&sum) {
                    *out = T::from_f32(if self.silu { silu(*sum) } else { *sum });
                }
            },
        );
        self.taps.rotate_left(1);
    }

    /// Writes the last `width − 1` inputs to `state`.
    pub(super) fn end<S: Element>(&self, state: &mut [S]) {
        let history = self.taps.len() - 1;
        for (j, tap) in self.taps[..history].iter().enumerate() {
            for (c, x) in tap.iter().enumerate() {
                state[c * history + j] = S::from_f32(*x);
            }
        }
    }
}
