//! Bits against the stated order, element by element: no tiles, and nothing of a later token in reach.

use vt_kernels::mma::fold;
use vt_kernels::{Rows, RowsMut, math};

use super::*;

/// `acc + Σ_k a[k] · b[k]`: for every 16 along K hi·hi, hi·lo, lo·hi, as far as the factors have a lo.
fn product(arch: Arch, (a, a_exact): (&[f32], bool), (b, b_exact): (&[f32], bool), acc: f32) -> f32 {
    let term = |v: &[f32], lo: bool| -> Vec<bf16> {
        let mut terms: Vec<bf16> = v
            .iter()
            .map(|&v| {
                let hi: bf16 = Element::from_f32(v);
                let rest = if hi.is_finite() { v - hi.to_f32() } else { 0.0 };
                if lo { Element::from_f32(rest) } else { hi }
            })
            .collect();
        terms.resize(16, bf16::ZERO);
        terms
    };
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (a, b) in a.chunks(16).zip(b.chunks(16)) {
        let mut issue = |a_lo, b_lo| {
            left.extend(term(a, a_lo));
            right.extend(term(b, b_lo));
        };
        issue(false, false);
        if !b_exact {
            issue(false, true);
        }
        if !a_exact {
            issue(true, false);
        }
    }
    let (k, mut acc) = (left.len(), [acc]);
    let (left, right) = (Rows::new("a", &left, 1, k).unwrap(), Rows::new("b", &right, 1, k).unwrap());
    fold::bf16(arch, left, right, &mut RowsMut::new("acc", &mut acc, 1, 1).unwrap()).unwrap();
    acc[0]
}

/// One sequence: `y` `[tokens, n_heads · head_dim]` and the final state.
fn definition<T: Element + Bits>(
    arch: Arch,
    shape: Shape,
    t: &Inputs<'_, T>,
    initial: Option<&[f32]>,
) -> (Vec<f32>, Vec<f32>) {
    let Shape { n_heads, head_dim, n_groups, d_state, chunk_size, dt_softplus, dt_limit } = shape;
    let (tokens, exact) = (t.x.rows(), T::DTYPE == vt_kernels::DType::Bf16);
    let mut y = vec![0.0f32; tokens * n_heads * head_dim];
    let mut state = initial.map_or(vec![0.0f32; n_heads * head_dim * d_state], <[f32]>::to_vec);
    for h in 0..n_heads {
        let group = h / (n_heads / n_groups) * d_state;
        let part = |rows: &Rows<'_, T>, i: usize| -> Vec<f32> {
            rows.row(i)[group..group + d_state].iter().map(|v| v.to_f32()).collect()
        };
        for start in (0..tokens).step_by(chunk_size) {
            let rows: Vec<usize> = (start..tokens.min(start + chunk_size)).collect();
            let dt: Vec<f32> = rows
                .iter()
                .map(|&i| {
                    let dt = t.dt.row(i)[h].to_f32();
                    let dt = t.dt_bias.map_or(dt, |bias| dt + bias[h]);
                    let dt = if dt_softplus { math::softplus(dt) } else { dt };
                    dt.clamp(dt_limit.0, dt_limit.1)
                })
                .collect();
            let mut sum = 0.0f32;
            let sums: Vec<f32> = dt
                .iter()
                .map(|dt| {
                    sum += dt * t.A[h];
                    sum
                })
                .collect();
            let decay = |i: usize, j: usize| {
                let difference = sums[i] - sums[j];
                math::exp(if difference > 0.0 { 0.0 } else { difference })
            };
            let last = rows.len() - 1;
            for p in 0..head_dim {
                let at = h * head_dim + p;
                let x: Vec<f32> = rows.iter().map(|&i| t.x.row(i)[at].to_f32()).collect();
                let before = &mut state[at * d_state..(at + 1) * d_state];
                for (i, &row) in rows.iter().enumerate() {
                    let c = part(&t.C, row);
                    let carried = product(arch, (&c, exact), (before, false), 0.0) * math::exp(sums[i]);
                    let g: Vec<f32> = (0..=i)
                        .map(|j| {
                            let b = part(&t.B, rows[j]);
                            product(arch, (&c, exact), (&b, exact), 0.0) * decay(i, j) * dt[j]
                        })
                        .collect();
                    let mut value = product(arch, (&g, false), (&x[..=i], exact), carried);
                    if let Some(d) = t.D {
                        value = d[h].mul_add(x[i], value);
                    }
                    if let Some(z) = &t.z {
                        value *= math::silu(z.row(row)[at].to_f32());
                    }
                    y[row * n_heads * head_dim + at] = <f32 as Element>::from_f32(value);
                }
                for (n, s) in before.iter_mut().enumerate() {
                    let scaled: Vec<f32> =
                        (0..rows.len()).map(|i| part(&t.B, rows[i])[n] * (decay(last, i) * dt[i])).collect();
                    *s = product(arch, (&scaled, false), (&x, exact), *s * math::exp(sums[last]));
                }
            }
        }
    }
    (y, state.into_iter().map(<f32 as Element>::from_f32).collect())
}

fn check<T: Element + Bits>(seed: u64, s: Sizes, tokens: usize, chunk: usize, options: u8, extreme: bool) {
    let mut rng = Rng::new(seed);
    let inner = s.n_heads * s.head_dim;
    let mut t = Tokens::<T>::new(&mut rng, s, tokens, 1);
    if extreme {
        t.x = Padded::extreme(&mut rng, tokens, inner, 1);
        t.B = Padded::extreme(&mut rng, tokens, s.n_groups * s.d_state, 2);
    }
    let has = |bit: u8| options >> bit & 1 == 1;
    let initial = has(0).then(|| state_row(&mut rng, s, 1));
    let dt_limit = if has(1) { (0.05, 0.7) } else { (0.0, f32::INFINITY) };
    let shape = Shape { dt_softplus: has(2), dt_limit, ..shape(s, chunk) };
    let (ends, has_initial) = ([0, tokens as u32], [has(0)]);
    let all = inputs(&t, &ends, initial.as_ref(), &has_initial);
    let given = Inputs {
        D: all.D.filter(|_| has(3)),
        z: all.z.filter(|_| has(4)),
        dt_bias: all.dt_bias.filter(|_| has(5)),
        ..all
    };
    let arch = if has(6) { Arch::Sm90a } else { Arch::Sm121a };
    let (mut out, mut states) =
        (Padded::<f32>::poisoned(tokens, inner, 1), Padded::<f32>::poisoned(1, inner * s.d_state, 0));
    let plan = Plan::new(arch, shape).unwrap();
    plan.reference(&given, &mut out.view_mut(), &mut states.view_mut()).unwrap();
    let row = initial.as_ref().map(|initial| initial.row(0));
    let (y, state) = definition(arch, shape, &given, row.as_deref());
    assert_biteq("y", &out.values(), &y);
    assert_biteq("state", &states.values(), &state);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn equals_the_stated_order(
        seed: u64,
        tokens in 0usize..80,
        log_chunk in 4u32..8,
        heads in 1usize..3,
        n_groups in 1usize..3,
        head_dim in 1usize..4,
        d_state in 1usize..36,
        options: u8,
        extreme: bool,
    ) {
        let s = Sizes { n_heads: heads * n_groups, head_dim, n_groups, d_state };
        check::<bf16>(seed, s, tokens, 1 << log_chunk, options, extreme);
        check::<f32>(seed, s, tokens, 1 << log_chunk, options, extreme);
    }
}

/// More than one tile of rows in a chunk.
#[test]
fn equals_the_stated_order_past_a_tile() {
    let s = Sizes { n_heads: 1, head_dim: 2, n_groups: 1, d_state: 5 };
    for extreme in [false, true] {
        check::<bf16>(1, s, 150, 128, 0b0111_1111, extreme);
        check::<f32>(2, s, 150, 128, 0b0011_1111, extreme);
    }
}

/// An f32 above bf16's range is ∞ to the tensor cores, though finite: a zero of `G` must not meet it either.
#[test]
fn a_later_f32_beyond_bf16_does_not_matter() {
    let mut rng = Rng::new(3);
    let t = Tokens::<f32>::new(&mut rng, SIZES, 40, 0);
    let (want, _) = whole(shape(SIZES, 32), &t);
    for from in [1, 13, 31, 35] {
        let cols = t.x.view().cols();
        let mut values =
            t.x.values().into_iter().enumerate().map(|(at, x)| if at / cols >= from { f32::MAX } else { x });
        let x = Padded::new(40, cols, 0, 0.0, || values.next().unwrap());
        let (got, _) = whole(shape(SIZES, 32), &Tokens { x, ..t.clone() });
        assert_biteq("earlier", &got.slice(0..from).values(), &want.slice(0..from).values());
    }
}
