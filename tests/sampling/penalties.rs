//! `sampling/penalties`.

use proptest::prelude::*;
use vt_kernels::Arch;
use vt_kernels::sampling::penalties::{Penalties, Plan, Shape};

use crate::support::biteq::{assert_biteq, biteq};
use crate::support::padded::{Padded, assert_refuses};
use crate::support::strategies::Rng;

const NONE: Penalties = Penalties { repetition: 1.0, presence: 0.0, frequency: 0.0 };

fn penalise(params: Penalties, prompt: &[u32], output: &[u32], logits: &[f32]) -> Vec<f32> {
    let mut values = logits.iter().copied();
    let mut logits = Padded::new(1, logits.len(), 2, f32::NAN, || values.next().unwrap());
    let plan = Plan::new(Arch::Sm90a, Shape { vocab: logits.view().cols() }).unwrap();
    plan.reference(&[params], &[prompt], &[output], &mut logits.view_mut()).unwrap();
    logits.assert_padding();
    logits.values()
}

/// vLLM's definition: masks of what was seen and counts of the output, applied to every token.
fn by_masks(p: Penalties, prompt: &[u32], output: &[u32], logits: &[f32]) -> Vec<f32> {
    let logit = |(id, x): (usize, &f32)| {
        let count = output.iter().filter(|o| **o as usize == id).count() as f32;
        let seen = count > 0.0 || prompt.contains(&(id as u32));
        let factor = if seen { p.repetition } else { 1.0 };
        let x = if *x > 0.0 { x / factor } else { x * factor };
        let x = x - count * p.frequency;
        if count > 0.0 { x - p.presence } else { x }
    };
    logits.iter().enumerate().map(logit).collect()
}

mod vs_paper {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn equals_the_masks(
            seed: u64, vocab in 1usize..60, prompt in 0usize..30, output in 0usize..30,
            repetition in 0.5f32..3.0, presence in -2.0f32..2.0, frequency in -2.0f32..2.0,
        ) {
            let mut rng = Rng::new(seed);
            let params = Penalties { repetition, presence, frequency };
            let mut ids = |n| (0..n).map(|_| rng.below(vocab) as u32).collect::<Vec<_>>();
            let (prompt, output) = (ids(prompt), ids(output));
            let logits = rng.normals(vocab, 3.0);
            let got = penalise(params, &prompt, &output, &logits);
            assert_biteq("logits", &got, &by_masks(params, &prompt, &output, &logits));
            assert_biteq("none", &penalise(NONE, &prompt, &output, &logits), &logits);
        }
    }

    mod controls {
        use super::*;

        #[test]
        fn presence_for_the_prompt_is_seen() {
            let p = Penalties { presence: 1.0, ..NONE };
            let wrong = by_masks(p, &[], &[1], &[0.5, 0.5]);
            assert!(biteq("logits", &penalise(p, &[1], &[], &[0.5, 0.5]), &wrong).is_err());
        }
    }
}

#[test]
fn errors_name_the_argument() {
    let plan = Plan::new(Arch::Sm90a, Shape { vocab: 3 }).unwrap();
    let before = Padded::<f32>::normal(&mut Rng::new(1), 1, 3, 0, 1.0);
    let refuses = |params: &[Penalties], prompt: &[&[u32]], output: &[&[u32]], arg| {
        let mut logits = before.clone();
        assert_refuses(plan.reference(params, prompt, output, &mut logits.view_mut()), arg);
        assert_biteq("untouched", &logits.values(), &before.values());
    };
    refuses(&[], &[&[]], &[&[]], "params");
    refuses(&[NONE], &[], &[&[]], "prompt");
    refuses(&[NONE], &[&[]], &[], "output");
    refuses(&[NONE], &[&[3]], &[&[]], "prompt");
    refuses(&[NONE], &[&[0]], &[&[0, 3]], "output");
    refuses(&[Penalties { repetition: 0.0, ..NONE }], &[&[]], &[&[]], "repetition");
    refuses(&[Penalties { presence: f32::NAN, ..NONE }], &[&[]], &[&[]], "presence");
    refuses(&[Penalties { frequency: f32::INFINITY, ..NONE }], &[&[]], &[&[]], "frequency");
}
