//! `conv1d/forward`.

use half::bf16;
use proptest::prelude::*;
use safetensors::SafeTensors;
use vt_kernels::conv1d::forward::{Inputs, Plan, Shape};
use vt_kernels::{Arch, Element, math};

use super::weights;
use crate::support::biteq::{assert_biteq, biteq};
use crate::support::oracle::oracle_dir;
use crate::support::padded::{Padded, assert_refuses, within};
use crate::support::strategies::Rng;

/// Everything a call reads but the tokens.
struct Layer {
    weight: Padded<bf16>,
    bias: Vec<bf16>,
}

impl Layer {
    fn new(rng: &mut Rng, channels: usize, width: usize) -> Self {
        let (weight, bias) = weights(rng, channels, width);
        Layer { weight, bias }
    }

    fn run(
        &self,
        x: &Padded<bf16>,
        cu_seqlens: &[u32],
        slots: &[i32],
        has_initial: &[bool],
        state: &mut Padded<bf16>,
    ) -> Padded<bf16> {
        let (channels, width) = (self.weight.view().rows(), self.weight.view().cols());
        let mut out = Padded::poisoned(x.view().rows(), channels, 2);
        let plan = Plan::new(Arch::Sm121a, Shape { channels, width, silu: true }).unwrap();
        let (weight, bias) = (self.weight.view(), Some(self.bias.as_slice()));
        let inputs = Inputs { x: x.view(), weight, bias, cu_seqlens, slots, has_initial };
        plan.reference(&inputs, &mut state.view_mut(), &mut out.view_mut()).unwrap();
        out.assert_padding();
        state.assert_padding();
        out
    }

    /// The definition for one sequence: earlier inputs `[width − 1][channels]`, oldest first, then the tokens.
    fn naive(&self, history: &[Vec<f32>], x: &Padded<bf16>) -> Vec<bf16> {
        let (channels, width) = (self.weight.view().rows(), self.weight.view().cols());
        let mut inputs = history.to_vec();
        inputs.extend((0..x.view().rows()).map(|t| x.row(t).iter().map(|x| x.to_f32()).collect::<Vec<_>>()));
        let tokens = 0..x.view().rows();
        let value = |t: usize, c: usize| {
            let mut sum = self.bias[c].to_f32();
            for j in 0..width {
                sum = self.weight.row(c)[j].to_f32().mul_add(inputs[t + j][c], sum);
            }
            <bf16 as Element>::from_f32(math::silu(sum))
        };
        tokens.flat_map(|t| (0..channels).map(move |c| (t, c))).map(|(t, c)| value(t, c)).collect()
    }
}

fn zeros(width: usize, channels: usize) -> Vec<Vec<f32>> {
    vec![vec![0.0; channels]; width - 1]
}

mod vs_reference {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Sequences of any length packed in a batch, against the definition of each; states, too.
        #[test]
        fn packed_equals_the_definition_of_each(
            seed: u64,
            lengths in prop::collection::vec(0usize..9, 0..4),
            channels in 1usize..40,
            width in 1usize..6,
            pad in 0usize..4,
            extreme: bool,
        ) {
            let mut rng = Rng::new(seed);
            let layer = Layer::new(&mut rng, channels, width);
            let total: usize = lengths.iter().sum();
            let x = if extreme {
                Padded::extreme(&mut rng, total, channels, pad)
            } else {
                Padded::normal(&mut rng, total, channels, pad, 1.0)
            };
            let mut ends = vec![0u32];
            lengths.iter().for_each(|n| ends.push(ends[ends.len() - 1] + *n as u32));
            // Slots in another order than sequences; the first sequence keeps nothing.
            let slots: Vec<i32> = (0..lengths.len() as i32).map(|s| if s == 0 { -1 } else { 4 - s }).collect();
            let has_initial: Vec<bool> = (0..lengths.len()).map(|s| s % 2 == 1).collect();
            let before = Padded::<bf16>::normal(&mut rng, 5, channels * (width - 1), 3, 1.0);
            let mut state = before.clone();
            let out = layer.run(&x, &ends, &slots, &has_initial, &mut state);
            let mut untouched: Vec<usize> = (0..5).collect();
            for (s, n) in lengths.iter().enumerate() {
                let rows = ends[s] as usize..ends[s] as usize + n;
                let mut history = zeros(width, channels);
                if let (true, Ok(slot)) = (has_initial[s], usize::try_from(slots[s])) {
                    let stored = before.row(slot);
                    for (j, tap) in history.iter_mut().enumerate() {
                        for (c, value) in tap.iter_mut().enumerate() {
                            *value = stored[c * (width - 1) + j].to_f32();
                        }
                    }
                }
                let tokens = x.slice(rows.clone());
                assert_biteq("out", &out.slice(rows).values(), &layer.naive(&history, &tokens));
                if let Ok(slot) = usize::try_from(slots[s]) {
                    untouched.retain(|i| *i != slot);
                    history.extend((0..*n).map(|t| tokens.row(t).iter().map(|x| x.to_f32()).collect::<Vec<_>>()));
                    let last = &history[history.len() - (width - 1)..];
                    let want: Vec<bf16> = (0..channels)
                        .flat_map(|c| last.iter().map(move |tap| Element::from_f32(tap[c]))).collect();
                    assert_biteq("state", &state.row(slot), &want);
                }
            }
            for slot in untouched {
                assert_biteq("other slots", &state.row(slot), &before.row(slot));
            }
        }
    }

    #[test]
    fn split_at_every_offset_equals_whole() {
        let mut rng = Rng::new(11);
        let layer = Layer::new(&mut rng, 24, 4);
        let x = Padded::normal(&mut rng, 11, 24, 1, 1.0);
        let mut state = Padded::<bf16>::poisoned(1, 72, 0);
        let whole = layer.run(&x, &[0, 11], &[0], &[false], &mut state);
        for at in 0..=11u32 {
            // Poison that the first piece must not read.
            let mut cut = Padded::<bf16>::poisoned(1, 72, 0);
            let first = layer.run(&x.slice(0..at as usize), &[0, at], &[0], &[false], &mut cut);
            let rest = layer.run(&x.slice(at as usize..11), &[0, 11 - at], &[0], &[true], &mut cut);
            assert_biteq("out", &[first.values(), rest.values()].concat(), &whole.values());
            assert_biteq("state", &cut.values(), &state.values());
        }
    }
}

/// A slot of −1 begins with zeros whatever `has_initial` says, and no state is written.
#[test]
fn a_pad_slot_has_no_history() {
    let mut rng = Rng::new(15);
    let layer = Layer::new(&mut rng, 8, 4);
    let x = Padded::normal(&mut rng, 5, 8, 0, 1.0);
    let before = Padded::<bf16>::normal(&mut rng, 2, 24, 1, 1.0);
    let mut state = before.clone();
    let out = layer.run(&x, &[0, 2, 5], &[-1, -1], &[true, false], &mut state);
    let alone = |rows: std::ops::Range<usize>| layer.naive(&zeros(4, 8), &x.slice(rows));
    assert_biteq("out", &out.values(), &[alone(0..2), alone(2..5)].concat());
    assert_biteq("state", &state.values(), &before.values());
}

/// `z | xBC | dt` side by side in one row, as `in_proj` leaves them.
#[test]
fn a_view_of_a_wider_buffer_equals_its_copy() {
    let mut rng = Rng::new(16);
    let layer = Layer::new(&mut rng, 8, 4);
    let buffer = Padded::<bf16>::normal(&mut rng, 6, 6 + 8 + 2, 1, 1.0);
    let x = buffer.view().columns("in_proj", 6..14).unwrap();
    let mut values = (0..6).flat_map(|i| x.row(i).to_vec());
    let copy = Padded::new(6, 8, 0, bf16::NAN, || values.next().unwrap());
    let (mut state, mut want_state) =
        (Padded::<bf16>::poisoned(1, 24, 0), Padded::<bf16>::poisoned(1, 24, 0));
    let want = layer.run(&copy, &[0, 6], &[0], &[false], &mut want_state);
    let (weight, bias) = (layer.weight.view(), Some(layer.bias.as_slice()));
    let inputs = Inputs { x, weight, bias, cu_seqlens: &[0, 6], slots: &[0], has_initial: &[false] };
    let mut out = Padded::<bf16>::poisoned(6, 8, 0);
    let plan = Plan::new(Arch::Sm121a, Shape { channels: 8, width: 4, silu: true }).unwrap();
    plan.reference(&inputs, &mut state.view_mut(), &mut out.view_mut()).unwrap();
    assert_biteq("out", &out.values(), &want.values());
    assert_biteq("state", &state.values(), &want_state.values());
}

mod vs_transformers {
    use super::*;

    /// f32 sums of four products in another order.
    #[test]
    fn equals_the_oracle() {
        let Some(dir) = oracle_dir("conv1d equals_the_oracle") else { return };
        let bytes = std::fs::read(dir.join("ops.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let f32s =
            |name: &str| -> Vec<f32> { bytemuck::pod_collect_to_vec(file.tensor(name).unwrap().data()) };
        let matrix = |name: &str, rows, cols| {
            let mut values = f32s(name).into_iter();
            Padded::<f32>::new(rows, cols, 0, 0.0, || values.next().unwrap())
        };
        let (x, weight, bias) = (matrix("conv.x", 11, 24), matrix("conv.weight", 24, 4), f32s("conv.bias"));
        let want: Vec<f64> = f32s("conv.y").iter().map(|x| f64::from(*x)).collect();
        let close = [true, false].map(|silu| {
            let (mut out, mut state) =
                (Padded::<f32>::poisoned(11, 24, 0), Padded::<f32>::poisoned(1, 72, 0));
            let plan = Plan::new(Arch::Sm90a, Shape { channels: 24, width: 4, silu }).unwrap();
            let (cu_seqlens, slots, has_initial) = (&[0, 11], &[0], &[false]);
            let inputs = Inputs {
                x: x.view(),
                weight: weight.view(),
                bias: Some(&bias),
                cu_seqlens,
                slots,
                has_initial,
            };
            plan.reference(&inputs, &mut state.view_mut(), &mut out.view_mut()).unwrap();
            within(&out.f64s(), &want, |w| (w.abs() + 1.0) * 2f64.powi(-20)).is_ok()
        });
        assert_eq!(close.iter().filter(|close| **close).count(), 1, "{close:?}: with and without SiLU");
    }
}

mod controls {
    use super::*;

    #[test]
    fn a_dropped_state_and_activated_history_are_seen() {
        let mut rng = Rng::new(13);
        let layer = Layer::new(&mut rng, 8, 4);
        let x = Padded::normal(&mut rng, 6, 8, 0, 1.0);
        let mut state = Padded::<bf16>::poisoned(1, 24, 0);
        let whole = layer.run(&x, &[0, 6], &[0], &[false], &mut state);
        layer.run(&x.slice(0..3), &[0, 3], &[0], &[false], &mut state);
        let dropped = layer.run(&x.slice(3..6), &[0, 3], &[0], &[false], &mut state);
        assert!(biteq("out", &dropped.values(), &whole.slice(3..6).values()).is_err());
        let mut activated = whole.slice(0..3).values().into_iter();
        let mut wrong = Padded::<bf16>::new(1, 24, 0, bf16::ZERO, || activated.next().unwrap());
        let rest = layer.run(&x.slice(3..6), &[0, 3], &[0], &[true], &mut wrong);
        assert!(biteq("out", &rest.values(), &whole.slice(3..6).values()).is_err());
    }
}

#[test]
fn errors_name_the_argument() {
    let shape = Shape { channels: 4, width: 4, silu: false };
    assert_refuses(Plan::new(Arch::Sm90a, Shape { channels: 0, ..shape }), "channels");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { width: 0, ..shape }), "width");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { width: 33, ..shape }), "width");
    let plan = Plan::new(Arch::Sm90a, shape).unwrap();
    let mut rng = Rng::new(1);
    let layer = Layer::new(&mut rng, 4, 4);
    let x = Padded::<bf16>::normal(&mut rng, 3, 4, 0, 1.0);
    let base = || Inputs {
        x: x.view(),
        weight: layer.weight.view(),
        bias: Some(layer.bias.as_slice()),
        cu_seqlens: &[0, 1, 3],
        slots: &[0, 1],
        has_initial: &[false, true],
    };
    let refuses = |inputs: Inputs<'_, bf16, bf16>, arg| {
        let (mut state, mut out) = (Padded::<bf16>::poisoned(2, 12, 0), Padded::<bf16>::poisoned(3, 4, 0));
        assert_refuses(plan.reference(&inputs, &mut state.view_mut(), &mut out.view_mut()), arg);
        assert_biteq("untouched", &out.values(), &Padded::poisoned(3, 4, 0).values());
        assert_biteq("untouched", &state.values(), &Padded::poisoned(2, 12, 0).values());
    };
    refuses(Inputs { cu_seqlens: &[], ..base() }, "cu_seqlens");
    refuses(Inputs { cu_seqlens: &[0, 4, 3], ..base() }, "cu_seqlens");
    refuses(Inputs { cu_seqlens: &[1, 2, 3], ..base() }, "cu_seqlens");
    refuses(Inputs { cu_seqlens: &[0, 1, 2], ..base() }, "cu_seqlens");
    refuses(Inputs { slots: &[0], ..base() }, "slots");
    refuses(Inputs { slots: &[1, 1], ..base() }, "slots");
    refuses(Inputs { slots: &[0, 2], ..base() }, "slots");
    refuses(Inputs { slots: &[0, -2], ..base() }, "slots");
    refuses(Inputs { has_initial: &[], ..base() }, "has_initial");
    refuses(Inputs { bias: Some(&layer.bias[1..]), ..base() }, "bias");
    refuses(Inputs { weight: x.view(), ..base() }, "weight");
    let mut out = Padded::<bf16>::poisoned(3, 4, 0);
    let mut state = Padded::<bf16>::poisoned(2, 11, 0);
    assert_refuses(plan.reference(&base(), &mut state.view_mut(), &mut out.view_mut()), "state");
}
