//! Tests of `vt_kernels::mamba2`.

mod chunk_scan;
mod state_update;

use vt_kernels::Element;

use crate::support::biteq::Bits;
use crate::support::padded::Padded;
use crate::support::strategies::Rng;

/// Sizes of a layer.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    n_heads: usize,
    head_dim: usize,
    n_groups: usize,
    d_state: usize,
}

/// Tokens of a layer: `x`, `dt`, `B`, `C`, `z`, with what is constant.
#[allow(non_snake_case)]
#[derive(Clone)]
struct Tokens<T> {
    x: Padded<T>,
    dt: Padded<T>,
    A: Vec<f32>,
    B: Padded<T>,
    C: Padded<T>,
    D: Vec<f32>,
    z: Padded<T>,
    dt_bias: Vec<f32>,
}

impl<T: Element + Bits> Tokens<T> {
    fn new(rng: &mut Rng, s: Sizes, tokens: usize, pad: usize) -> Self {
        let inner = s.n_heads * s.head_dim;
        Tokens {
            x: Padded::normal(rng, tokens, inner, pad, 1.0),
            dt: Padded::normal(rng, tokens, s.n_heads, pad, 1.0),
            A: (0..s.n_heads).map(|_| -0.05 - rng.normal(1.0).abs()).collect(),
            B: Padded::normal(rng, tokens, s.n_groups * s.d_state, pad, 1.0),
            C: Padded::normal(rng, tokens, s.n_groups * s.d_state, pad, 1.0),
            D: rng.normals(s.n_heads, 1.0),
            z: Padded::normal(rng, tokens, inner, pad, 1.0),
            dt_bias: rng.normals(s.n_heads, 0.5),
        }
    }

    /// The tokens `rows`.
    fn slice(&self, rows: std::ops::Range<usize>) -> Self {
        let of = |m: &Padded<T>| m.slice(rows.clone());
        let (x, dt, z) = (of(&self.x), of(&self.dt), of(&self.z));
        Tokens { x, dt, B: of(&self.B), C: of(&self.C), z, ..self.clone() }
    }

    fn len(&self) -> usize {
        self.x.view().rows()
    }
}

/// What the f64 recurrence gives, with the magnitudes that bound another order's error.
struct Recurrence {
    y: Vec<f64>,
    state: Vec<f64>,
    /// `Σ |s| |C|` and the skip, for each `y`.
    y_scale: Vec<f64>,
    /// The state's recurrence over magnitudes.
    state_scale: Vec<f64>,
}

/// The recurrence token by token in f64, `z` gating at the end. `floor` clamps `dt` from below.
fn recurrence<T: Element + Bits>(s: Sizes, t: &Tokens<T>, initial: Option<&[f32]>, floor: f64) -> Recurrence {
    let n = s.n_heads * s.head_dim * s.d_state;
    let mut state: Vec<f64> = initial.map_or(vec![0.0; n], |i| i.iter().map(|x| f64::from(*x)).collect());
    let mut magnitude: Vec<f64> = state.iter().map(|x| x.abs()).collect();
    let (mut y, mut y_scale) = (Vec::new(), Vec::new());
    let wide = |row: Vec<T>| row.iter().map(|x| f64::from(x.to_f32())).collect::<Vec<_>>();
    for i in 0..t.len() {
        let (x, dt, z) = (wide(t.x.row(i)), wide(t.dt.row(i)), wide(t.z.row(i)));
        let (b, c) = (wide(t.B.row(i)), wide(t.C.row(i)));
        for (h, dt) in dt.iter().enumerate() {
            let raw = dt + f64::from(t.dt_bias[h]);
            let step = if raw > 20.0 { raw } else { raw.exp().ln_1p() }.max(floor);
            let decay = (step * f64::from(t.A[h])).exp();
            let group = h / (s.n_heads / s.n_groups) * s.d_state;
            for p in 0..s.head_dim {
                let at = h * s.head_dim + p;
                let (mut sum, mut size) = (0.0, 0.0);
                for k in 0..s.d_state {
                    let term = step * x[at] * b[group + k];
                    let (state, magnitude) =
                        (&mut state[at * s.d_state + k], &mut magnitude[at * s.d_state + k]);
                    *state = *state * decay + term;
                    *magnitude = *magnitude * decay + term.abs();
                    sum += *state * c[group + k];
                    size += *magnitude * c[group + k].abs();
                }
                let gate = z[at] / (1.0 + (-z[at]).exp());
                let skip = f64::from(t.D[h]) * x[at];
                y.push((sum + skip) * gate);
                y_scale.push((size + skip.abs()) * gate.abs());
            }
        }
    }
    Recurrence { y, state, y_scale, state_scale: magnitude }
}

/// `Err` naming the first value further from `want` than `relative` of its scale.
fn near(name: &str, got: &[f64], want: &[f64], scale: &[f64], relative: f64) -> Result<(), String> {
    assert_eq!(got.len(), want.len(), "{name}");
    for (i, ((got, want), scale)) in got.iter().zip(want).zip(scale).enumerate() {
        let far = (got - want).abs();
        if far.is_nan() || far > scale * relative + 1e-30 {
            return Err(format!("{name} {i}: got {got}, expected {want} within {:e}", scale * relative));
        }
    }
    Ok(())
}
