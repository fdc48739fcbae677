//! `sampling/sample`.

use proptest::prelude::*;
use vt_kernels::Arch;
use vt_kernels::sampling::sample::{Params, Plan, Shape};

use crate::support::padded::{Padded, assert_refuses};
use crate::support::strategies::Rng;

const PLAIN: Params = Params { temperature: 1.0, top_k: None, top_p: 1.0, min_p: 0.0, seed: 0, step: 0 };

fn sample(logits: &Padded<f32>, params: &[Params]) -> Vec<u32> {
    let mut ids = vec![u32::MAX; params.len()];
    let plan = Plan::new(Arch::Sm90a, Shape { vocab: logits.view().cols() }).unwrap();
    plan.reference(logits.view(), params, &mut ids).unwrap();
    ids
}

fn row(logits: &[f32], params: Params) -> u32 {
    let mut values = logits.iter().copied();
    sample(&Padded::new(1, logits.len(), 0, 0.0, || values.next().unwrap()), &[params])[0]
}

/// The same logits with these params at steps 0 to `n`: how often each token comes.
fn counts(logits: &[f32], params: Params, n: u64) -> Vec<usize> {
    let mut counts = vec![0; logits.len()];
    let mut values = logits.iter().copied().cycle();
    let rows = Padded::new(n as usize, logits.len(), 0, 0.0, || values.next().unwrap());
    let params: Vec<Params> = (0..n).map(|step| Params { step, ..params }).collect();
    sample(&rows, &params).into_iter().for_each(|id| counts[id as usize] += 1);
    counts
}

mod vs_paper {
    use super::*;

    const N: u64 = 20_000;

    /// Tokens that pass the filters and their probabilities, in f64.
    fn distribution(logits: &[f32], p: Params) -> Vec<f64> {
        let scaled: Vec<f64> = logits.iter().map(|x| f64::from(*x) / f64::from(p.temperature)).collect();
        let largest = scaled.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|a, b| scaled[*b].total_cmp(&scaled[*a]));
        let weight = |i: &usize| (scaled[*i] - largest).exp();
        order.retain(|i| weight(i) >= f64::from(p.min_p));
        order.truncate(p.top_k.map_or(usize::MAX, |k| k as usize));
        let total: f64 = order.iter().map(weight).sum();
        let mut before = 0.0;
        order.retain(|i| {
            let kept = before < f64::from(p.top_p) * total;
            before += weight(i);
            kept
        });
        let total: f64 = order.iter().map(weight).sum();
        let mut probabilities = vec![0.0; logits.len()];
        order.iter().for_each(|i| probabilities[*i] = weight(i) / total);
        probabilities
    }

    /// Pearson's statistic over the tokens that can come; what cannot come must not.
    fn chi_square(counts: &[usize], probabilities: &[f64]) -> f64 {
        counts
            .iter()
            .zip(probabilities)
            .map(|(n, p)| match *p {
                0.0 => {
                    if *n > 0 {
                        f64::INFINITY
                    } else {
                        0.0
                    }
                }
                p => (*n as f64 - N as f64 * p).powi(2) / (N as f64 * p),
            })
            .sum()
    }

    /// Nine degrees of freedom at most: 40 is beyond the 99.999th percentile, and the seeds are fixed.
    #[test]
    fn frequencies_are_the_probabilities() {
        let logits = [2.0, 0.5, -1.0, 1.0, 0.0, -3.0, 1.5, 0.7, -0.5, 0.2];
        for (i, params) in [
            PLAIN,
            Params { temperature: 0.5, ..PLAIN },
            Params { temperature: 3.0, ..PLAIN },
            Params { top_k: Some(3), ..PLAIN },
            Params { top_p: 0.7, ..PLAIN },
            Params { min_p: 0.2, ..PLAIN },
            Params { temperature: 1.5, top_k: Some(6), top_p: 0.9, min_p: 0.05, ..PLAIN },
        ]
        .into_iter()
        .enumerate()
        {
            let params = Params { seed: i as u64 + 1, ..params };
            let statistic = chi_square(&counts(&logits, params, N), &distribution(&logits, params));
            assert!(statistic < 40.0, "{params:?}: {statistic}");
        }
    }

    mod controls {
        use super::*;

        #[test]
        fn another_temperature_is_seen() {
            let logits = [2.0, 0.5, -1.0, 1.0];
            let wrong = distribution(&logits, Params { temperature: 1.1, ..PLAIN });
            assert!(chi_square(&counts(&logits, PLAIN, N), &wrong) > 40.0);
        }
    }
}

mod vs_reference {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn alone_equals_in_batch_and_again(seed: u64, rows in 0usize..6, vocab in 1usize..300) {
            let mut rng = Rng::new(seed);
            let logits = Padded::<f32>::extreme(&mut rng, rows, vocab, 2);
            let params: Vec<Params> = (0..rows).map(|i| Params {
                temperature: [0.0, 0.7, 1.5][i % 3], top_k: (i % 2 == 0).then_some(20), top_p: 0.9, min_p: 0.01, seed: rng.bits(), step: i as u64,
            }).collect();
            let ids = sample(&logits, &params);
            assert_eq!(&sample(&logits, &params), &ids);
            for i in 0..rows {
                assert_eq!(sample(&logits.slice(i..i + 1), &params[i..=i]), [ids[i]]);
                assert!(!logits.row(i)[ids[i] as usize].is_nan() || ids[i] == 0);
            }
        }
    }

    #[test]
    fn one_choice_and_none() {
        assert_eq!(row(&[1.0, 3.0, 3.0], Params { temperature: 0.0, ..PLAIN }), 1);
        for step in 0..50 {
            let params = Params { step, ..PLAIN };
            assert_eq!(row(&[1.0, 3.0, 3.0], Params { top_k: Some(1), ..params }), 1);
            assert_eq!(row(&[1.0, 3.0, 2.9], Params { top_p: 1e-9, ..params }), 1);
            assert_eq!(row(&[1.0, 3.0, 2.9], Params { min_p: 1.0, ..params }), 1);
            assert_eq!(row(&[f32::NAN, 0.0, f32::NEG_INFINITY], params), 1);
            assert_eq!(row(&[f32::NAN, f32::NEG_INFINITY], params), 0);
            assert!(row(&[0.0, f32::INFINITY, f32::INFINITY], params) > 0);
        }
    }

    #[test]
    fn seed_and_step_make_other_draws() {
        let logits = [0.0; 100];
        let draws =
            |seed| (0..40).map(|step| row(&logits, Params { seed, step, ..PLAIN })).collect::<Vec<_>>();
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        assert!(draws(1).iter().collect::<std::collections::HashSet<_>>().len() > 20);
        assert_ne!(draws(1), draws(1 << 32 | 1));
    }
}

#[test]
fn errors_name_the_argument() {
    assert_refuses(Plan::new(Arch::Sm90a, Shape { vocab: 0 }), "vocab");
    let plan = Plan::new(Arch::Sm90a, Shape { vocab: 3 }).unwrap();
    let logits = Padded::<f32>::normal(&mut Rng::new(1), 1, 3, 0, 1.0);
    let refuses = |params, arg| {
        let mut ids = [9];
        assert_refuses(plan.reference(logits.view(), &[params], &mut ids), arg);
        assert_eq!(ids, [9]);
    };
    for temperature in [-1.0, f32::NAN, f32::INFINITY] {
        refuses(Params { temperature, ..PLAIN }, "temperature");
    }
    refuses(Params { top_k: Some(0), ..PLAIN }, "top_k");
    for top_p in [0.0, -0.1, 1.1, f32::NAN] {
        refuses(Params { top_p, ..PLAIN }, "top_p");
    }
    for min_p in [-0.1, 1.1, f32::NAN] {
        refuses(Params { min_p, ..PLAIN }, "min_p");
    }
    assert_refuses(plan.reference(logits.view(), &[], &mut [9]), "params");
    assert_refuses(plan.reference(logits.view(), &[PLAIN], &mut []), "ids");
}
