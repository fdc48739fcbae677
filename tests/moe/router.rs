//! `moe/router`.

use proptest::prelude::*;
use vt_kernels::moe::router::{Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::support::biteq::{assert_biteq, biteq};
use crate::support::padded::{Padded, assert_refuses, extreme};
use crate::support::strategies::Rng;

const LIGHTNING: Shape = Shape { n_experts: 128, top_k: 6, n_group: 1, topk_group: 1, norm_topk_prob: true };

/// Ids and weights.
fn route(shape: Shape, logits: &Padded<f32>, bias: Option<&[f32]>) -> (Vec<u32>, Vec<f32>) {
    let rows = logits.view().rows();
    let (mut ids, mut weights) = (vec![u32::MAX; rows * shape.top_k], vec![f32::NAN; rows * shape.top_k]);
    Plan::new(Arch::Sm90a, shape)
        .unwrap()
        .reference(
            logits.view(),
            bias,
            &mut RowsMut::new("ids", &mut ids, rows, shape.top_k).unwrap(),
            &mut RowsMut::new("weights", &mut weights, rows, shape.top_k).unwrap(),
        )
        .unwrap();
    (ids, weights)
}

fn row(logits: &[f32]) -> Padded<f32> {
    let mut values = logits.iter().copied();
    Padded::new(1, logits.len(), 0, 0.0, || values.next().unwrap())
}

/// What could be wrong with a router.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    BiasedWeight,
    TiesToTheHigherId,
}

mod vs_transformers {
    use super::*;

    /// `NemotronHTopkRouter` as transformers writes it: mask the groups that are not kept, then take the best, one after
    /// the other, the lowest id among equals; in f64 from the scores.
    fn naive(shape: Shape, logits: &[f32], bias: &[f32], fault: Fault) -> (Vec<u32>, Vec<f64>) {
        let scores: Vec<f32> = logits.iter().map(|x| vt_kernels::math::sigmoid(*x)).collect();
        let choice: Vec<f32> = scores.iter().zip(bias).map(|(s, b)| s + b).collect();
        let take = |values: &[f32], allowed: &dyn Fn(usize) -> bool, taken: &[usize]| {
            let mut best = None;
            for (i, v) in values.iter().enumerate().filter(|(i, _)| allowed(*i) && !taken.contains(i)) {
                let better = |b: usize| match fault {
                    Fault::TiesToTheHigherId => *v >= values[b],
                    _ => *v > values[b],
                };
                if best.is_none_or(better) {
                    best = Some(i);
                }
            }
            best.unwrap()
        };
        let size = shape.n_experts / shape.n_group;
        let groups: Vec<f32> = choice
            .chunks(size)
            .map(|g| {
                let first = take(g, &|_| true, &[]);
                if size == 1 { g[first] } else { g[first] + g[take(g, &|_| true, &[first])] }
            })
            .collect();
        let mut kept = Vec::new();
        (0..shape.topk_group).for_each(|_| kept.push(take(&groups, &|_| true, &kept)));
        let mut chosen = Vec::new();
        (0..shape.top_k).for_each(|_| chosen.push(take(&choice, &|e| kept.contains(&(e / size)), &chosen)));
        let weight =
            |e: &usize| f64::from(if fault == Fault::BiasedWeight { choice[*e] } else { scores[*e] });
        let weights: Vec<f64> = chosen.iter().map(weight).collect();
        let sum = if shape.norm_topk_prob { weights.iter().sum::<f64>() + 1e-20 } else { 1.0 };
        (chosen.iter().map(|e| *e as u32).collect(), weights.iter().map(|w| w / sum).collect())
    }

    fn check(shape: Shape, logits: &Padded<f32>, bias: &[f32], fault: Fault) -> Result<(), String> {
        let (ids, weights) = route(shape, logits, Some(bias));
        for i in 0..logits.view().rows() {
            let (want_ids, want) = naive(shape, &logits.row(i), bias, fault);
            let at = i * shape.top_k..(i + 1) * shape.top_k;
            biteq("ids", &ids[at.clone()], &want_ids)?;
            for (got, want) in weights[at].iter().zip(want) {
                // The sum and the quotient: a rounding for each expert and two more.
                if (f64::from(*got) - want).abs() > want.abs() * 2f64.powi(-20) {
                    return Err(format!("weight {got}, expected {want}"));
                }
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Logits from a few values, so that ties are common.
        #[test]
        fn equals_the_oracle(seed: u64, rows in 0usize..5, log_groups in 0u32..4, per_group in 1usize..17, kept in 1usize..9, k in 1usize..9, coarse: bool, norm: bool, bias_scale in prop::sample::select(vec![0.0f32, 0.02, 1.0, 35.0])) {
            let n_group = 1 << log_groups;
            let topk_group = kept.min(n_group);
            let top_k = k.min(per_group * topk_group);
            let shape = Shape { n_experts: n_group * per_group, top_k, n_group, topk_group, norm_topk_prob: norm };
            let mut rng = Rng::new(seed);
            let logits = Padded::new(rows, shape.n_experts, 2, f32::NAN, || {
                let x = rng.normal(4.0);
                if coarse { x.round() } else { x }
            });
            let mut rng = Rng::new(seed ^ 1);
            let bias: Vec<f32> = (0..shape.n_experts).map(|_| (rng.normal(1.0).round()) * bias_scale).collect();
            check(shape, &logits, &bias, Fault::None).unwrap();
        }
    }

    mod controls {
        use super::*;

        #[test]
        fn biased_weights_and_another_tie_rule_are_seen() {
            let mut rng = Rng::new(1);
            let logits = Padded::new(50, 128, 0, 0.0, || rng.normal(3.0).round());
            let bias: Vec<f32> = (0..128).map(|e| (e % 7) as f32 * 0.125).collect();
            check(LIGHTNING, &logits, &bias, Fault::None).unwrap();
            assert!(check(LIGHTNING, &logits, &bias, Fault::BiasedWeight).is_err());
            assert!(check(LIGHTNING, &logits, &bias, Fault::TiesToTheHigherId).is_err());
        }
    }
}

mod vs_reference {
    use super::*;

    #[test]
    fn ties_saturation_and_all_negative() {
        let (ids, weights) = route(LIGHTNING, &row(&[0.0; 128]), None);
        assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
        assert!(weights.iter().all(|w| (w - 1.0 / 6.0).abs() < 1e-7));
        let (ids, weights) = route(LIGHTNING, &row(&[100.0; 128]), None);
        assert_eq!((ids[5], weights[0]), (5, 1.0 / 6.0));
        // Scores are 0 or near it: the sum's 1e-20 keeps the quotient finite.
        let (ids, weights) = route(LIGHTNING, &row(&[-200.0; 128]), None);
        assert_eq!((ids[0], weights[0]), (0, 0.0));
        // −0 and +0 are equal.
        let shape = Shape { n_experts: 2, top_k: 1, n_group: 1, topk_group: 1, norm_topk_prob: false };
        assert_eq!(route(shape, &row(&[-200.0, -200.0]), Some(&[-0.0, 0.0])).0, [0]);
    }

    #[test]
    fn ids_differ_whatever_the_logits() {
        let mut rng = Rng::new(3);
        let logits = Padded::new(200, 128, 1, 0.0, || extreme(&mut rng));
        let all_nan = Padded::new(1, 128, 0, 0.0, || f32::NAN);
        for logits in [logits, all_nan] {
            let (ids, weights) = route(LIGHTNING, &logits, None);
            for ids in ids.chunks(6) {
                let distinct: std::collections::HashSet<_> = ids.iter().collect();
                assert!(distinct.len() == 6 && ids.iter().all(|id| *id < 128));
            }
            assert!(weights.iter().filter(|w| w.is_nan()).all(|w| w.to_bits() == 0x7fff_ffff));
        }
        // NaN is chosen last.
        let mut logits = [f32::NAN; 128];
        logits[100..106].fill(-5.0);
        assert_eq!(route(LIGHTNING, &row(&logits), None).0, [100, 101, 102, 103, 104, 105]);
    }

    #[test]
    fn alone_equals_in_batch() {
        let mut rng = Rng::new(5);
        let logits = Padded::<f32>::normal(&mut rng, 9, 128, 3, 2.0);
        let bias = rng.normals(128, 0.05);
        let (ids, weights) = route(LIGHTNING, &logits, Some(&bias));
        for i in 0..9 {
            let alone = route(LIGHTNING, &logits.slice(i..i + 1), Some(&bias));
            assert_biteq("ids", &alone.0, &ids[i * 6..i * 6 + 6]);
            assert_biteq("weights", &alone.1, &weights[i * 6..i * 6 + 6]);
        }
    }
}

#[test]
fn errors_name_the_argument() {
    let new = |shape| Plan::new(Arch::Sm90a, shape);
    assert_refuses(new(Shape { n_experts: 0, ..LIGHTNING }), "n_experts");
    assert_refuses(new(Shape { n_group: 3, ..LIGHTNING }), "n_group");
    assert_refuses(new(Shape { topk_group: 2, ..LIGHTNING }), "topk_group");
    assert_refuses(new(Shape { top_k: 129, ..LIGHTNING }), "top_k");
    assert_refuses(new(Shape { top_k: 0, ..LIGHTNING }), "top_k");
    assert_refuses(new(Shape { n_group: 64, topk_group: 2, ..LIGHTNING }), "top_k");
    let plan = new(LIGHTNING).unwrap();
    let logits = [0.0; 128];
    let (mut ids, mut weights) = ([9; 6], [9.0; 6]);
    let mut call = |cols, bias: &[f32], n| {
        let logits = Rows::new("logits", &logits[..cols], 1, cols).unwrap();
        plan.reference(
            logits,
            Some(bias),
            &mut RowsMut::new("ids", &mut ids[..n], 1, n).unwrap(),
            &mut RowsMut::new("weights", &mut weights, 1, 6).unwrap(),
        )
    };
    assert_refuses(call(127, &[0.0; 128], 6), "logits");
    assert_refuses(call(128, &[0.0; 127], 6), "correction_bias");
    assert_refuses(call(128, &[0.0; 128], 5), "ids");
    assert_eq!((ids, weights), ([9; 6], [9.0; 6]));
}
