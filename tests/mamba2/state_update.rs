//! `mamba2/state_update`.

use half::bf16;
use proptest::prelude::*;
use safetensors::SafeTensors;
use vt_kernels::mamba2::state_update::{Inputs, Plan, Shape};
use vt_kernels::{Arch, Element, math};

use super::{Sizes, Tokens, near, recurrence};
use crate::support::biteq::{Bits, assert_biteq, biteq};
use crate::support::oracle::oracle_dir;
use crate::support::padded::{Padded, assert_refuses, within};
use crate::support::strategies::Rng;

const SIZES: Sizes = Sizes { n_heads: 4, head_dim: 6, n_groups: 2, d_state: 40 };

fn shape(s: Sizes) -> Shape {
    let Sizes { n_heads, head_dim, n_groups, d_state } = s;
    Shape { n_heads, head_dim, n_groups, d_state, dt_softplus: true, dt_limit: (0.0, f32::INFINITY) }
}

fn inputs<'a, T: Element + Bits>(t: &'a Tokens<T>, slots: &'a [i32]) -> Inputs<'a, T> {
    Inputs {
        x: t.x.view(),
        dt: t.dt.view(),
        A: &t.A,
        B: t.B.view(),
        C: t.C.view(),
        D: Some(&t.D),
        z: Some(t.z.view()),
        dt_bias: Some(&t.dt_bias),
        slots,
    }
}

fn step<T: Element + Bits, S: Element + Bits>(
    shape: Shape,
    t: &Tokens<T>,
    slots: &[i32],
    state: &mut Padded<S>,
) -> Padded<f32> {
    let mut out = Padded::poisoned(t.len(), shape.n_heads * shape.head_dim, 1);
    let plan = Plan::new(Arch::Sm90a, shape).unwrap();
    plan.reference(&inputs(t, slots), &mut state.view_mut(), &mut out.view_mut()).unwrap();
    out.assert_padding();
    state.assert_padding();
    out
}

fn states<S: Element + Bits>(rng: &mut Rng, s: Sizes, slots: usize) -> Padded<S> {
    Padded::normal(rng, slots, s.n_heads * s.head_dim * s.d_state, 3, 1.0)
}

mod vs_reference {
    use super::*;

    /// The definition of one element, its sum as 32 lanes of vectors of 4.
    fn naive(shape: &Shape, t: &Tokens<bf16>, i: usize, state: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let (mut next, mut out) = (Vec::new(), Vec::new());
        for h in 0..shape.n_heads {
            let dt = math::softplus(t.dt.row(i)[h].to_f32() + t.dt_bias[h]);
            let dt = dt.clamp(shape.dt_limit.0, shape.dt_limit.1);
            let decay = math::exp(dt * t.A[h]);
            let group = h / (shape.n_heads / shape.n_groups) * shape.d_state;
            for p in 0..shape.head_dim {
                let at = h * shape.head_dim + p;
                let x = t.x.row(i)[at].to_f32();
                let mut lanes = [0.0f32; 32];
                for n in 0..shape.d_state {
                    let (b, c) = (t.B.row(i)[group + n].to_f32(), t.C.row(i)[group + n].to_f32());
                    let s = state[at * shape.d_state + n].mul_add(decay, dt * x * b);
                    lanes[n / 4 % 32] = s.mul_add(c, lanes[n / 4 % 32]);
                    next.push(s);
                }
                for distance in [16, 8, 4, 2, 1] {
                    (0..distance).for_each(|l| lanes[l] += lanes[l + distance]);
                }
                let y = t.D[h].mul_add(x, lanes[0]) * math::silu(t.z.row(i)[at].to_f32());
                out.push(<f32 as Element>::from_f32(y));
            }
        }
        (next, out)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn equals_the_stated_order(
            seed: u64, batch in 0usize..4, heads in 1usize..3, head_dim in 1usize..9, n_groups in 1usize..4, d_state in 1usize..140, extreme: bool,
        ) {
            let mut rng = Rng::new(seed);
            let s = Sizes { n_heads: heads * n_groups, head_dim, n_groups, d_state };
            let mut t = Tokens::<bf16>::new(&mut rng, s, batch, 2);
            if extreme {
                t.x = Padded::extreme(&mut rng, batch, s.n_heads * head_dim, 1);
                t.dt = Padded::extreme(&mut rng, batch, s.n_heads, 1);
            }
            let shape = Shape { dt_limit: (0.01, 3.0), ..shape(s) };
            let before = states::<f32>(&mut rng, s, 5);
            let slots: Vec<i32> = [3, 0, -1, 4][..batch].to_vec();
            let mut state = before.clone();
            let out = step(shape, &t, &slots, &mut state);
            for (i, &slot) in slots.iter().enumerate() {
                let Ok(slot) = usize::try_from(slot) else {
                    assert_biteq("pad row", &out.row(i), &vec![0.0; s.n_heads * head_dim]);
                    continue;
                };
                let (next, y) = naive(&shape, &t, i, &before.row(slot));
                assert_biteq("y", &out.row(i), &y);
                let next: Vec<f32> = next.into_iter().map(<f32 as Element>::from_f32).collect();
                assert_biteq("state", &state.row(slot), &next);
                let mut own = before.clone();
                let alone = step(shape, &t.slice(i..i + 1), &[slot as i32], &mut own);
                assert_biteq("alone", &alone.values(), &out.row(i));
            }
            for slot in (0..5).filter(|slot| !slots.contains(&(*slot as i32))) {
                assert_biteq("other slots", &state.row(slot), &before.row(slot));
            }
        }
    }

    /// The read-out sees the state before it is rounded to bf16.
    #[test]
    fn a_bf16_state_is_rounded_after_it_is_read() {
        let mut rng = Rng::new(3);
        let t = Tokens::<f32>::new(&mut rng, SIZES, 1, 0);
        let narrow = states::<bf16>(&mut rng, SIZES, 1);
        let mut values = narrow.values().into_iter().map(|x| x.to_f32());
        let mut wide = Padded::<f32>::new(1, narrow.values().len(), 0, 0.0, || values.next().unwrap());
        let mut stored = narrow.clone();
        let out = step(shape(SIZES), &t, &[0], &mut stored);
        assert_biteq("y", &out.values(), &step(shape(SIZES), &t, &[0], &mut wide).values());
        let rounded: Vec<bf16> = wide.values().iter().map(|x| Element::from_f32(*x)).collect();
        assert_biteq("state", &stored.values(), &rounded);
    }
}

mod vs_paper {
    use super::*;

    /// exp 1 ulp of an argument with 2 ulp, softplus 2 ulp, some ten roundings, then a sum of d_state: 2^-24 · 64.
    const RELATIVE: f64 = 64.0 / (1u32 << 24) as f64;

    fn check(floor: f64, dt: impl Fn(f32) -> f32) -> Result<(), String> {
        let mut rng = Rng::new(5);
        let mut t = Tokens::<f32>::new(&mut rng, SIZES, 12, 2);
        let mut values = t.dt.values().into_iter().map(dt);
        t.dt = Padded::new(12, SIZES.n_heads, 2, f32::NAN, || values.next().unwrap());
        let mut state = states::<f32>(&mut rng, SIZES, 1);
        let want = recurrence(SIZES, &t, Some(&state.values()), floor);
        let got: Vec<f64> =
            (0..12).flat_map(|i| step(shape(SIZES), &t.slice(i..i + 1), &[0], &mut state).f64s()).collect();
        near("y", &got, &want.y, &want.y_scale, 12.0 * RELATIVE)?;
        near("state", &state.f64s(), &want.state, &want.state_scale, 12.0 * RELATIVE)
    }

    #[test]
    fn twelve_steps_equal_the_recurrence_in_f64() {
        check(0.0, |dt| dt).unwrap();
        for dt in [-50.0, 0.0, 19.0, 20.5, 50.0] {
            check(0.0, |_| dt).unwrap_or_else(|e| panic!("dt {dt}: {e}"));
        }
    }

    mod controls {
        use super::*;

        #[test]
        fn a_floor_under_dt_is_seen() {
            assert!(check(0.001, |_| -12.0).is_err());
        }
    }
}

mod vs_transformers {
    use super::*;

    /// The oracle's scan of 37 tokens, step by step: f32 in another order, 2^-18 of the largest value.
    #[test]
    fn steps_equal_the_oracle() {
        let Some(dir) = oracle_dir("state_update steps_equal_the_oracle") else { return };
        let bytes = std::fs::read(dir.join("ops.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let f32s =
            |name: &str| -> Vec<f32> { bytemuck::pod_collect_to_vec(file.tensor(name).unwrap().data()) };
        let matrix = |name: &str, rows, cols| {
            let mut values = f32s(name).into_iter();
            Padded::<f32>::new(rows, cols, 0, 0.0, || values.next().unwrap())
        };
        let s = Sizes { n_heads: 16, head_dim: 32, n_groups: 2, d_state: 64 };
        let t = Tokens {
            x: matrix("ssm.x", 37, 512),
            dt: matrix("ssm.dt", 37, 16),
            A: f32s("ssm.A"),
            B: matrix("ssm.B", 37, 128),
            C: matrix("ssm.C", 37, 128),
            D: f32s("ssm.D"),
            z: Padded::poisoned(37, 512, 0),
            dt_bias: f32s("ssm.dt_bias"),
        };
        let mut state = matrix("ssm.state_in", 1, 512 * 64);
        let plan = Plan::new(Arch::Sm90a, shape(s)).unwrap();
        let mut got = Vec::new();
        for i in 0..37 {
            let (t, mut out) = (t.slice(i..i + 1), Padded::<f32>::poisoned(1, 512, 0));
            let inputs = Inputs { z: None, ..inputs(&t, &[0]) };
            plan.reference(&inputs, &mut state.view_mut(), &mut out.view_mut()).unwrap();
            got.extend(out.f64s());
        }
        for (got, want) in [(got, "ssm.y"), (state.f64s(), "ssm.state_out")] {
            let want: Vec<f64> = f32s(want).into_iter().map(f64::from).collect();
            let largest = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
            within(&got, &want, |_| largest * 2f64.powi(-18)).unwrap();
        }
    }
}

mod controls {
    use super::*;

    #[test]
    fn the_wrong_group_is_seen() {
        let mut rng = Rng::new(7);
        let t = Tokens::<f32>::new(&mut rng, SIZES, 1, 0);
        let before = states::<f32>(&mut rng, SIZES, 1);
        let right = step(shape(SIZES), &t, &[0], &mut before.clone());
        let swap = |m: &Padded<f32>| {
            let mut values = m.row(0);
            values.rotate_left(SIZES.d_state);
            let mut values = values.into_iter();
            Padded::new(1, 2 * SIZES.d_state, 0, 0.0, || values.next().unwrap())
        };
        let swapped = Tokens { B: swap(&t.B), C: swap(&t.C), ..t.clone() };
        let wrong = step(shape(SIZES), &swapped, &[0], &mut before.clone());
        assert!(biteq("y", &wrong.values(), &right.values()).is_err());
    }
}

#[test]
fn errors_name_the_argument() {
    let s = shape(SIZES);
    assert_refuses(Plan::new(Arch::Sm90a, Shape { n_groups: 3, ..s }), "n_groups");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { n_heads: 0, ..s }), "n_heads");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { d_state: 0, ..s }), "d_state");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { dt_limit: (1.0, 0.0), ..s }), "dt_limit");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { dt_limit: (f32::NAN, 1.0), ..s }), "dt_limit");
    let mut rng = Rng::new(1);
    let t = Tokens::<f32>::new(&mut rng, SIZES, 2, 0);
    let before = states::<f32>(&mut rng, SIZES, 2);
    let plan = Plan::new(Arch::Sm90a, s).unwrap();
    let refuses = |inputs: Inputs<'_, f32>, arg| {
        let (mut state, mut out) = (before.clone(), Padded::<f32>::poisoned(2, 24, 0));
        assert_refuses(plan.reference(&inputs, &mut state.view_mut(), &mut out.view_mut()), arg);
        assert_biteq("untouched", &state.values(), &before.values());
        assert_biteq("untouched", &out.values(), &Padded::poisoned(2, 24, 0).values());
    };
    let base = || inputs(&t, &[0, 1]);
    refuses(Inputs { slots: &[1, 1], ..base() }, "slots");
    refuses(Inputs { slots: &[0, 2], ..base() }, "slots");
    refuses(Inputs { slots: &[0, -2], ..base() }, "slots");
    refuses(Inputs { slots: &[0], ..base() }, "slots");
    refuses(Inputs { x: t.dt.view(), ..base() }, "x");
    refuses(Inputs { dt: t.x.view(), ..base() }, "dt");
    refuses(Inputs { A: &t.A[1..], ..base() }, "A");
    refuses(Inputs { B: t.x.view(), ..base() }, "B");
    refuses(Inputs { C: t.x.view(), ..base() }, "C");
    refuses(Inputs { D: Some(&t.D[1..]), ..base() }, "D");
    refuses(Inputs { z: Some(t.dt.view()), ..base() }, "z");
    refuses(Inputs { dt_bias: Some(&[]), ..base() }, "dt_bias");
    for (state_cols, rows, cols, arg) in [(959, 2, 24, "state"), (960, 1, 24, "out"), (960, 2, 25, "out")] {
        let (mut state, mut out) =
            (Padded::<f32>::poisoned(2, state_cols, 1), Padded::<f32>::poisoned(rows, cols, 1));
        assert_refuses(plan.reference(&base(), &mut state.view_mut(), &mut out.view_mut()), arg);
        assert_biteq("untouched", &state.values(), &Padded::poisoned(2, state_cols, 1).values());
        assert_biteq("untouched", &out.values(), &Padded::poisoned(rows, cols, 1).values());
    }
}

/// Pad slots may repeat; a batch without rows is valid.
#[test]
fn pad_slots_touch_nothing() {
    let mut rng = Rng::new(9);
    let t = Tokens::<bf16>::new(&mut rng, SIZES, 3, 1);
    let before = states::<bf16>(&mut rng, SIZES, 2);
    let mut state = before.clone();
    let out = step(shape(SIZES), &t, &[-1, 1, -1], &mut state);
    assert_biteq("pad rows", &[out.row(0), out.row(2)].concat(), &[0.0; 48]);
    assert_biteq("slot 0", &state.row(0), &before.row(0));
    assert!(biteq("slot 1", &state.row(1), &before.row(1)).is_err());
    let (none, kept) = (t.slice(0..0), state.clone());
    assert!(step(shape(SIZES), &none, &[], &mut state).values().is_empty());
    assert_biteq("no rows", &state.values(), &kept.values());
}
