//! `mamba2/chunk_scan`.

mod pieces;
mod vs_definition;

use half::bf16;
use proptest::prelude::*;
use safetensors::SafeTensors;
use vt_kernels::mamba2::chunk_scan::{Inputs, Plan, Shape};
use vt_kernels::mamba2::state_update;
use vt_kernels::{Arch, Element};

use super::{Sizes, Tokens, near, recurrence};
use crate::support::biteq::{Bits, assert_biteq, biteq};
use crate::support::oracle::oracle_dir;
use crate::support::padded::{Padded, assert_refuses, within};
use crate::support::strategies::Rng;

const SIZES: Sizes = Sizes { n_heads: 4, head_dim: 8, n_groups: 2, d_state: 24 };

fn shape(s: Sizes, chunk_size: usize) -> Shape {
    let Sizes { n_heads, head_dim, n_groups, d_state } = s;
    let dt_limit = (0.0, f32::INFINITY);
    Shape { n_heads, head_dim, n_groups, d_state, chunk_size, dt_softplus: true, dt_limit }
}

fn inputs<'a, T: Element + Bits>(
    t: &'a Tokens<T>,
    cu_seqlens: &'a [u32],
    initial: Option<&'a Padded<f32>>,
    has_initial: &'a [bool],
) -> Inputs<'a, T> {
    Inputs {
        x: t.x.view(),
        dt: t.dt.view(),
        A: &t.A,
        B: t.B.view(),
        C: t.C.view(),
        D: Some(&t.D),
        z: Some(t.z.view()),
        dt_bias: Some(&t.dt_bias),
        cu_seqlens,
        initial_states: initial.map(Padded::view),
        has_initial,
    }
}

/// Outputs in f32 and final states.
fn scan<T: Element + Bits>(
    arch: Arch,
    shape: Shape,
    t: &Tokens<T>,
    cu_seqlens: &[u32],
    initial: Option<&Padded<f32>>,
    has_initial: &[bool],
) -> (Padded<f32>, Padded<f32>) {
    let inner = shape.n_heads * shape.head_dim;
    let mut out = Padded::poisoned(t.len(), inner, 3);
    let mut states = Padded::poisoned(has_initial.len(), inner * shape.d_state, 2);
    let inputs = inputs(t, cu_seqlens, initial, has_initial);
    let plan = Plan::new(arch, shape).unwrap();
    plan.reference(&inputs, &mut out.view_mut(), &mut states.view_mut()).unwrap();
    out.assert_padding();
    states.assert_padding();
    (out, states)
}

/// One sequence from zeros.
fn whole<T: Element + Bits>(shape: Shape, t: &Tokens<T>) -> (Padded<f32>, Padded<f32>) {
    scan(Arch::Sm121a, shape, t, &[0, t.len() as u32], None, &[false])
}

fn state_row(rng: &mut Rng, s: Sizes, rows: usize) -> Padded<f32> {
    Padded::normal(rng, rows, s.n_heads * s.head_dim * s.d_state, 1, 1.0)
}

mod vs_reference {
    use super::*;

    /// Lengths about chunk and step ends, packed, each against itself alone.
    #[test]
    fn packed_equals_alone() {
        let mut rng = Rng::new(1);
        let lengths = [1usize, 0, 127, 128, 15, 129, 17, 255, 257];
        let t = Tokens::<bf16>::new(&mut rng, SIZES, lengths.iter().sum(), 2);
        let initial = state_row(&mut rng, SIZES, lengths.len());
        let has_initial: Vec<bool> = (0..lengths.len()).map(|s| s % 2 == 1).collect();
        let mut ends = vec![0u32];
        lengths.iter().for_each(|n| ends.push(ends[ends.len() - 1] + *n as u32));
        for arch in [Arch::Sm90a, Arch::Sm121a] {
            let shape = shape(SIZES, 128);
            let (out, states) = scan(arch, shape, &t, &ends, Some(&initial), &has_initial);
            for (s, n) in lengths.iter().enumerate() {
                let rows = ends[s] as usize..ends[s + 1] as usize;
                let own = initial.slice(s..s + 1);
                let (alone, state) = scan(
                    arch,
                    shape,
                    &t.slice(rows.clone()),
                    &[0, *n as u32],
                    Some(&own),
                    &has_initial[s..s + 1],
                );
                assert_biteq("out", &out.slice(rows).values(), &alone.values());
                assert_biteq("state", &states.row(s), &state.values());
                if *n == 0 {
                    let kept = if has_initial[s] { own.values() } else { vec![0.0; own.values().len()] };
                    assert_biteq("no tokens", &state.values(), &kept);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Cut at any multiple of the chunk, the state carried over.
        #[test]
        fn pieces_equal_the_whole(seed: u64, tokens in 17usize..200, log_chunk in 4u32..7, cut in 1usize..12, heads in 1usize..3, n_groups in 1usize..3) {
            let mut rng = Rng::new(seed);
            let s = Sizes { n_heads: heads * n_groups, head_dim: 5, n_groups, d_state: 19 };
            let chunk = 1usize << log_chunk;
            let at = (cut * chunk).min((tokens - 1) / chunk * chunk);
            let t = Tokens::<bf16>::new(&mut rng, s, tokens, 1);
            let shape = shape(s, chunk);
            let (out, state) = whole(shape, &t);
            let (first, carried) = whole(shape, &t.slice(0..at));
            let rest = t.slice(at..tokens);
            let (second, last) = scan(Arch::Sm121a, shape, &rest, &[0, rest.len() as u32], Some(&carried), &[true]);
            assert_biteq("out", &[first.values(), second.values()].concat(), &out.values());
            assert_biteq("state", &last.values(), &state.values());
        }
    }

    /// What is not finite in a later token does not reach an earlier one.
    #[test]
    fn later_tokens_do_not_matter() {
        let mut rng = Rng::new(3);
        let t = Tokens::<bf16>::new(&mut rng, SIZES, 40, 0);
        let (want, _) = whole(shape(SIZES, 32), &t);
        for special in [f32::NAN, f32::INFINITY, f32::MAX] {
            let poison = |m: &Padded<bf16>, from: usize| {
                let cols = m.view().cols();
                let mut values = m
                    .values()
                    .into_iter()
                    .enumerate()
                    .map(|(at, x)| if at / cols >= from { Element::from_f32(special) } else { x });
                Padded::new(40, cols, 0, bf16::ZERO, || values.next().unwrap())
            };
            for from in [1, 13, 31, 35] {
                let bad = Tokens {
                    x: poison(&t.x, from),
                    B: poison(&t.B, from),
                    C: poison(&t.C, from),
                    ..t.clone()
                };
                let (got, _) = whole(shape(SIZES, 32), &bad);
                assert_biteq("earlier", &got.slice(0..from).values(), &want.slice(0..from).values());
            }
        }
    }

    #[test]
    fn a_bf16_input_widened_to_f32_gives_the_same_bits() {
        let mut rng = Rng::new(5);
        let t = Tokens::<bf16>::new(&mut rng, SIZES, 33, 0);
        let widen = |m: &Padded<bf16>| {
            let mut values = m.values().into_iter().map(|x| x.to_f32());
            Padded::<f32>::new(33, m.view().cols(), 0, 0.0, || values.next().unwrap())
        };
        let wide = Tokens::<f32> {
            x: widen(&t.x),
            dt: widen(&t.dt),
            A: t.A.clone(),
            B: widen(&t.B),
            C: widen(&t.C),
            D: t.D.clone(),
            z: widen(&t.z),
            dt_bias: t.dt_bias.clone(),
        };
        let (narrow, state) = whole(shape(SIZES, 16), &t);
        let (got, wide_state) = whole(shape(SIZES, 16), &wide);
        assert_biteq("out", &got.values(), &narrow.values());
        assert_biteq("state", &wide_state.values(), &state.values());
    }
}

mod vs_paper {
    use super::*;

    /// Two bf16 terms hold 16 bits of a factor: 2^-17 each, twice a chunk, and F = 25 folds of 2^-21 in all. An f32
    /// running sum of `Δ · A` over a chunk adds 2^-24 of up to 100 to an exponent.
    pub(super) const RELATIVE: f64 = 1.0 / (1u32 << 14) as f64;

    fn check<T: Element + Bits>(
        t: &Tokens<T>,
        chunk: usize,
        initial: Option<&Padded<f32>>,
        floor: f64,
    ) -> Result<(), String> {
        let row = initial.map(|i| i.row(0));
        let want = recurrence(SIZES, t, row.as_deref(), floor);
        let has_initial = [initial.is_some()];
        for arch in [Arch::Sm90a, Arch::Sm121a] {
            let ends = [0, t.len() as u32];
            let (out, state) = scan(arch, shape(SIZES, chunk), t, &ends, initial, &has_initial);
            near("y", &out.f64s(), &want.y, &want.y_scale, RELATIVE)?;
            near("state", &state.f64s(), &want.state, &want.state_scale, RELATIVE)?;
        }
        Ok(())
    }

    #[test]
    fn equals_the_recurrence_in_f64() {
        let mut rng = Rng::new(7);
        for (tokens, chunk) in [(1, 16), (16, 16), (50, 32), (129, 128), (200, 64), (257, 256)] {
            let initial = state_row(&mut rng, SIZES, 1);
            check(&Tokens::<bf16>::new(&mut rng, SIZES, tokens, 1), chunk, None, 0.0).unwrap();
            check(&Tokens::<bf16>::new(&mut rng, SIZES, tokens, 1), chunk, Some(&initial), 0.0).unwrap();
            check(&Tokens::<f32>::new(&mut rng, SIZES, tokens, 1), chunk, Some(&initial), 0.0).unwrap();
        }
    }

    fn constant_dt(rng: &mut Rng, dt: f32) -> Tokens<f32> {
        let mut t = Tokens::<f32>::new(rng, SIZES, 40, 0);
        t.dt = Padded::new(40, SIZES.n_heads, 0, 0.0, || dt);
        t
    }

    #[test]
    fn any_dt() {
        let mut rng = Rng::new(9);
        for dt in [-50.0, 0.0, 20.0, 50.0] {
            let initial = state_row(&mut rng, SIZES, 1);
            check(&constant_dt(&mut rng, dt), 16, Some(&initial), 0.0)
                .unwrap_or_else(|e| panic!("dt {dt}: {e}"));
        }
    }

    /// Prefill, then steps, against a scan of all: both are within the bound of the recurrence.
    #[test]
    fn prefill_then_steps_equal_the_scan() {
        let mut rng = Rng::new(11);
        let t = Tokens::<bf16>::new(&mut rng, SIZES, 45, 0);
        let want = recurrence(SIZES, &t, None, 0.0);
        let Sizes { n_heads, head_dim, n_groups, d_state } = SIZES;
        let dt_limit = (0.0, f32::INFINITY);
        let step = state_update::Shape { n_heads, head_dim, n_groups, d_state, dt_softplus: true, dt_limit };
        let step = state_update::Plan::new(Arch::Sm121a, step).unwrap();
        for prefill in [0, 1, 16, 37] {
            let (out, mut state) = whole(shape(SIZES, 16), &t.slice(0..prefill));
            let mut got = out.f64s();
            for i in prefill..45 {
                let t = t.slice(i..i + 1);
                let mut y = Padded::<f32>::poisoned(1, n_heads * head_dim, 0);
                let inputs = state_update::Inputs {
                    x: t.x.view(),
                    dt: t.dt.view(),
                    A: &t.A,
                    B: t.B.view(),
                    C: t.C.view(),
                    D: Some(&t.D),
                    z: Some(t.z.view()),
                    dt_bias: Some(&t.dt_bias),
                    slots: &[0],
                };
                step.reference(&inputs, &mut state.view_mut(), &mut y.view_mut()).unwrap();
                got.extend(y.f64s());
            }
            near("y", &got, &want.y, &want.y_scale, RELATIVE).unwrap();
        }
    }

    mod controls {
        use super::*;

        #[test]
        fn a_dropped_carry_and_a_floor_under_dt_are_seen() {
            let mut rng = Rng::new(13);
            let t = Tokens::<f32>::new(&mut rng, SIZES, 40, 0);
            let want = recurrence(SIZES, &t, None, 0.0);
            // The second chunk begun from zeros.
            let (first, _) = whole(shape(SIZES, 16), &t.slice(0..16));
            let (rest, _) = whole(shape(SIZES, 16), &t.slice(16..40));
            let got = [first.f64s(), rest.f64s()].concat();
            assert!(near("y", &got, &want.y, &want.y_scale, RELATIVE).is_err());
            assert!(check(&constant_dt(&mut rng, -12.0), 16, None, 0.001).is_err());
        }
    }
}

mod vs_transformers {
    use super::*;

    #[test]
    fn equals_the_oracle() {
        let Some(dir) = oracle_dir("chunk_scan equals_the_oracle") else { return };
        let bytes = std::fs::read(dir.join("ops.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let f32s =
            |name: &str| -> Vec<f32> { bytemuck::pod_collect_to_vec(file.tensor(name).unwrap().data()) };
        let matrix = |name: &str, rows, cols| {
            let mut values = f32s(name).into_iter();
            Padded::<f32>::new(rows, cols, 0, 0.0, || values.next().unwrap())
        };
        let shape = shape(Sizes { n_heads: 16, head_dim: 32, n_groups: 2, d_state: 64 }, 16);
        let (x, dt) = (matrix("ssm.x", 37, 512), matrix("ssm.dt", 37, 16));
        let (b, c) = (matrix("ssm.B", 37, 128), matrix("ssm.C", 37, 128));
        let (a, d, dt_bias) = (f32s("ssm.A"), f32s("ssm.D"), f32s("ssm.dt_bias"));
        let initial = matrix("ssm.state_in", 1, 512 * 64);
        let inputs = Inputs {
            x: x.view(),
            dt: dt.view(),
            A: &a,
            B: b.view(),
            C: c.view(),
            D: Some(&d),
            z: None,
            dt_bias: Some(&dt_bias),
            cu_seqlens: &[0, 37],
            initial_states: Some(initial.view()),
            has_initial: &[true],
        };
        for arch in [Arch::Sm90a, Arch::Sm121a] {
            let (mut out, mut state) =
                (Padded::<f32>::poisoned(37, 512, 0), Padded::<f32>::poisoned(1, 512 * 64, 0));
            let plan = Plan::new(arch, shape).unwrap();
            plan.reference(&inputs, &mut out.view_mut(), &mut state.view_mut()).unwrap();
            let want = |name: &str| f32s(name).iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
            let largest = |v: &[f64]| v.iter().fold(0.0f64, |m, x| m.max(x.abs()));
            for (got, want) in [(out.f64s(), want("ssm.y")), (state.f64s(), want("ssm.state_out"))] {
                let scale = largest(&want);
                within(&got, &want, |_| scale * 2f64.powi(-14)).unwrap();
            }
        }
    }
}

mod controls {
    use super::*;

    /// A chunk grid from the first token of the batch instead of the sequence's own.
    #[test]
    fn the_flat_batch_grid_is_seen() {
        let mut rng = Rng::new(17);
        let t = Tokens::<bf16>::new(&mut rng, SIZES, 45, 0);
        let shape = shape(SIZES, 16);
        let (right, _) = scan(Arch::Sm121a, shape, &t, &[0, 5, 45], None, &[false; 2]);
        // The second sequence cut where the flat grid would cut it: at token 16 of the batch.
        let (_, carried) = whole(shape, &t.slice(5..16));
        let (rest, _) = scan(Arch::Sm121a, shape, &t.slice(16..45), &[0, 29], Some(&carried), &[true]);
        assert!(biteq("out", &rest.values(), &right.slice(16..45).values()).is_err());
    }
}

#[test]
fn errors_name_the_argument() {
    let s = shape(SIZES, 32);
    for chunk_size in [0, 8, 48, 512] {
        assert_refuses(Plan::new(Arch::Sm90a, Shape { chunk_size, ..s }), "chunk_size");
    }
    assert_refuses(Plan::new(Arch::Sm90a, Shape { n_groups: 3, ..s }), "n_groups");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { dt_limit: (2.0, 1.0), ..s }), "dt_limit");
    let mut rng = Rng::new(1);
    let t = Tokens::<f32>::new(&mut rng, SIZES, 3, 0);
    let plan = Plan::new(Arch::Sm90a, s).unwrap();
    let refuses = |inputs: Inputs<'_, f32>, arg| {
        let (mut out, mut state) = (Padded::<f32>::poisoned(3, 32, 0), Padded::<f32>::poisoned(1, 768, 0));
        assert_refuses(plan.reference(&inputs, &mut out.view_mut(), &mut state.view_mut()), arg);
        assert_biteq("untouched", &out.values(), &Padded::poisoned(3, 32, 0).values());
        assert_biteq("untouched", &state.values(), &Padded::poisoned(1, 768, 0).values());
    };
    let base = || inputs(&t, &[0, 3], None, &[false]);
    refuses(Inputs { cu_seqlens: &[0, 2], ..base() }, "cu_seqlens");
    refuses(Inputs { cu_seqlens: &[], ..base() }, "cu_seqlens");
    refuses(Inputs { has_initial: &[], ..base() }, "has_initial");
    refuses(Inputs { has_initial: &[true], ..base() }, "initial_states");
    refuses(Inputs { initial_states: Some(t.x.view()), ..base() }, "initial_states");
    refuses(Inputs { x: t.dt.view(), ..base() }, "x");
    refuses(Inputs { dt: t.x.view(), ..base() }, "dt");
    refuses(Inputs { A: &[], ..base() }, "A");
    refuses(Inputs { B: t.x.view(), ..base() }, "B");
    refuses(Inputs { C: t.x.view(), ..base() }, "C");
    refuses(Inputs { D: Some(&[]), ..base() }, "D");
    refuses(Inputs { z: Some(t.dt.view()), ..base() }, "z");
    refuses(Inputs { dt_bias: Some(&[]), ..base() }, "dt_bias");
}
