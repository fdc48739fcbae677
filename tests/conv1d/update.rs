//! `conv1d/update`.

use half::bf16;
use proptest::prelude::*;
use vt_kernels::Arch;
use vt_kernels::conv1d::{forward, update};

use super::weights;
use crate::support::biteq::{assert_biteq, biteq};
use crate::support::padded::{Padded, assert_refuses};
use crate::support::strategies::Rng;

fn shape(channels: usize, width: usize) -> update::Shape {
    update::Shape { channels, width, silu: true }
}

fn step(
    x: &Padded<bf16>,
    weight: &Padded<bf16>,
    bias: &[bf16],
    slots: &[i32],
    state: &mut Padded<bf16>,
) -> Padded<bf16> {
    let (channels, width) = (weight.view().rows(), weight.view().cols());
    let mut out = Padded::poisoned(x.view().rows(), channels, 1);
    let inputs = update::Inputs { x: x.view(), weight: weight.view(), bias: Some(bias), slots };
    let plan = update::Plan::new(Arch::Sm90a, shape(channels, width)).unwrap();
    plan.reference(&inputs, &mut state.view_mut(), &mut out.view_mut()).unwrap();
    out.assert_padding();
    out
}

mod vs_reference {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Token by token in a batch of two slots equals `forward` over each sequence.
        #[test]
        fn steps_equal_forward(seed: u64, tokens in 1usize..9, channels in 1usize..40, width in 1usize..6, extreme: bool) {
            let mut rng = Rng::new(seed);
            let (weight, bias) = weights(&mut rng, channels, width);
            let sequence = |rng: &mut Rng| if extreme {
                Padded::<bf16>::extreme(rng, tokens, channels, 2)
            } else {
                Padded::normal(rng, tokens, channels, 2, 1.0)
            };
            let sequences = [sequence(&mut rng), sequence(&mut rng)];
            let before = Padded::<bf16>::normal(&mut rng, 3, channels * (width - 1), 1, 1.0);
            let mut state = before.clone();
            let slots = [2, 0];
            let mut got = [Vec::new(), Vec::new()];
            for t in 0..tokens {
                let mut rows = sequences.iter().flat_map(|s| s.row(t));
                let x = Padded::<bf16>::new(2, channels, 3, bf16::NAN, || rows.next().unwrap());
                let out = step(&x, &weight, &bias, &slots, &mut state);
                (0..2).for_each(|s| got[s].extend(out.row(s)));
            }
            let mut whole = before.clone();
            for (s, sequence) in sequences.iter().enumerate() {
                let shape = forward::Shape { channels, width, silu: true };
                let inputs = forward::Inputs {
                    x: sequence.view(), weight: weight.view(), bias: Some(&bias[..]),
                    cu_seqlens: &[0, tokens as u32], slots: &slots[s..s + 1], has_initial: &[true],
                };
                let mut out = Padded::<bf16>::poisoned(tokens, channels, 0);
                let plan = forward::Plan::new(Arch::Sm90a, shape).unwrap();
                plan.reference(&inputs, &mut whole.view_mut(), &mut out.view_mut()).unwrap();
                assert_biteq("out", &got[s], &out.values());
            }
            assert_biteq("state", &state.values(), &whole.values());
        }
    }

    #[test]
    fn a_pad_slot_touches_nothing() {
        let mut rng = Rng::new(17);
        let (weight, bias) = weights(&mut rng, 8, 4);
        let x = Padded::<bf16>::normal(&mut rng, 3, 8, 0, 1.0);
        let before = Padded::<bf16>::normal(&mut rng, 2, 24, 0, 1.0);
        let mut state = before.clone();
        let out = step(&x, &weight, &bias, &[-1, 1, -1], &mut state);
        assert_biteq("pad rows", &[out.row(0), out.row(2)].concat(), &[bf16::ZERO; 16]);
        assert_biteq("slot 0", &state.row(0), &before.row(0));
        assert!(biteq("slot 1", &state.row(1), &before.row(1)).is_err());
        let alone = step(&x.slice(1..2), &weight, &bias, &[1], &mut before.clone());
        assert_biteq("alone", &out.row(1), &alone.values());
        let none = Padded::<bf16>::poisoned(0, 8, 0);
        assert!(step(&none, &weight, &bias, &[], &mut state).values().is_empty());
    }
}

mod controls {
    use super::*;

    /// A state kept newest first.
    #[test]
    fn a_reversed_state_is_seen() {
        let mut rng = Rng::new(19);
        let (weight, bias) = weights(&mut rng, 1, 4);
        let x = Padded::<bf16>::normal(&mut rng, 1, 1, 0, 1.0);
        let state = Padded::<bf16>::normal(&mut rng, 1, 3, 0, 1.0);
        let mut values = state.values().into_iter().rev();
        let mut reversed = Padded::<bf16>::new(1, 3, 0, bf16::ZERO, || values.next().unwrap());
        let right = step(&x, &weight, &bias, &[0], &mut state.clone());
        let wrong = step(&x, &weight, &bias, &[0], &mut reversed);
        assert!(biteq("out", &wrong.values(), &right.values()).is_err());
    }
}

#[test]
fn errors_name_the_argument() {
    let mut rng = Rng::new(1);
    let (weight, bias) = weights(&mut rng, 4, 4);
    let x = Padded::<bf16>::normal(&mut rng, 2, 4, 0, 1.0);
    let plan = update::Plan::new(Arch::Sm90a, shape(4, 4)).unwrap();
    let refuses = |slots: &[i32], arg| {
        let inputs = update::Inputs { x: x.view(), weight: weight.view(), bias: Some(&bias[..]), slots };
        let (mut state, mut out) = (Padded::<bf16>::poisoned(2, 12, 0), Padded::<bf16>::poisoned(2, 4, 0));
        assert_refuses(plan.reference(&inputs, &mut state.view_mut(), &mut out.view_mut()), arg);
        assert_biteq("untouched", &state.values(), &Padded::poisoned(2, 12, 0).values());
        assert_biteq("untouched", &out.values(), &Padded::poisoned(2, 4, 0).values());
    };
    refuses(&[0, 0], "slots");
    refuses(&[0, 2], "slots");
    refuses(&[0, -2], "slots");
    refuses(&[0], "slots");
}
