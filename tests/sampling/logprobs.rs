//! `sampling/logprobs`.

use proptest::prelude::*;
use vt_kernels::sampling::logprobs::{Plan, Shape};
use vt_kernels::{Arch, RowsMut};

use crate::support::biteq::assert_biteq;
use crate::support::padded::{Padded, assert_refuses};
use crate::support::strategies::Rng;

/// Log-probabilities of the chosen, the best ids and theirs.
fn logprobs(logits: &Padded<f32>, chosen: &[u32], top_n: usize) -> (Vec<f32>, Vec<u32>, Vec<f32>) {
    let (rows, vocab) = (logits.view().rows(), logits.view().cols());
    let mut own = vec![f32::NAN; rows];
    let (mut ids, mut best) = (vec![u32::MAX; rows * top_n], vec![f32::NAN; rows * top_n]);
    Plan::new(Arch::Sm90a, Shape { vocab, top_n })
        .unwrap()
        .reference(
            logits.view(),
            chosen,
            &mut own,
            &mut RowsMut::new("top_ids", &mut ids, rows, top_n).unwrap(),
            &mut RowsMut::new("top_logprobs", &mut best, rows, top_n).unwrap(),
        )
        .unwrap();
    (own, ids, best)
}

mod vs_paper {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Log-softmax in f64: exp 1 ulp, a sum of `vocab` terms in 256 lanes, log1p 1 ulp, one difference.
        #[test]
        fn equals_log_softmax_in_f64(seed: u64, rows in 0usize..4, vocab in 1usize..2000, top_n in 0usize..6, scale in 0.1f32..30.0) {
            let top_n = top_n.min(vocab);
            let mut rng = Rng::new(seed);
            let logits = Padded::<f32>::normal(&mut rng, rows, vocab, 3, scale);
            let chosen: Vec<u32> = (0..rows).map(|_| rng.below(vocab) as u32).collect();
            let (own, ids, best) = logprobs(&logits, &chosen, top_n);
            for i in 0..rows {
                let row: Vec<f64> = logits.row(i).iter().map(|x| f64::from(*x)).collect();
                let largest = row.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
                let log = largest + row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln();
                let mut order: Vec<usize> = (0..vocab).collect();
                order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
                let near = |got: f32, id: usize| {
                    let want = row[id] - log;
                    assert!((f64::from(got) - want).abs() <= (want.abs() + 8.0) * 2f64.powi(-22), "{got} {want}");
                };
                near(own[i], chosen[i] as usize);
                for j in 0..top_n {
                    assert_eq!(ids[i * top_n + j] as usize, order[j]);
                    near(best[i * top_n + j], order[j]);
                }
                let alone = logprobs(&logits.slice(i..i + 1), &chosen[i..=i], top_n);
                assert_biteq("alone", &alone.0, &own[i..=i]);
                assert_biteq("alone", &alone.2, &best[i * top_n..(i + 1) * top_n]);
            }
        }
    }

    mod controls {
        use super::*;

        #[test]
        fn a_missing_normaliser_would_be_seen() {
            let mut values = [1.0f32, 1.0].into_iter();
            let (own, ..) = logprobs(&Padded::new(1, 2, 0, 0.0, || values.next().unwrap()), &[0], 0);
            assert_ne!(own[0], 0.0);
            assert_eq!(own[0], -std::f32::consts::LN_2);
        }
    }
}

#[test]
fn ties_nan_and_infinity() {
    let row = |logits: &[f32], chosen: u32| {
        let mut values = logits.iter().copied();
        logprobs(&Padded::new(1, logits.len(), 0, 0.0, || values.next().unwrap()), &[chosen], logits.len())
    };
    assert_eq!(row(&[2.0, 3.0, 3.0, -0.0, 0.0], 1).1, [1, 2, 0, 3, 4]);
    let (own, ids, best) = row(&[f32::NAN, 1.0, f32::NEG_INFINITY], 0);
    assert_eq!(
        (own[0].to_bits(), ids, best[0], best[1]),
        (0x7fff_ffff, vec![1, 2, 0], 0.0, f32::NEG_INFINITY)
    );
    let (own, ids, _) = row(&[0.0, f32::INFINITY], 1);
    assert_eq!((own[0], ids[0]), (0.0, 1));
    assert!(row(&[f32::NEG_INFINITY; 3], 0).0[0].is_nan());
}

#[test]
fn errors_name_the_argument() {
    assert_refuses(Plan::new(Arch::Sm90a, Shape { vocab: 0, top_n: 0 }), "vocab");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { vocab: 3, top_n: 4 }), "top_n");
    let plan = Plan::new(Arch::Sm90a, Shape { vocab: 4, top_n: 2 }).unwrap();
    let logits = Padded::<f32>::poisoned(1, 4, 0);
    let (mut own, mut ids, mut best) = ([9.0; 2], [9; 3], [9.0; 3]);
    let mut call = |chosen: &[u32], n: (usize, usize, usize)| {
        let mut ids = RowsMut::new("top_ids", &mut ids[..n.1], 1, n.1).unwrap();
        let mut best = RowsMut::new("top_logprobs", &mut best[..n.2], 1, n.2).unwrap();
        plan.reference(logits.view(), chosen, &mut own[..n.0], &mut ids, &mut best)
    };
    assert_refuses(call(&[4], (1, 2, 2)), "chosen");
    assert_refuses(call(&[], (1, 2, 2)), "chosen");
    assert_refuses(call(&[0], (2, 2, 2)), "chosen_logprobs");
    assert_refuses(call(&[0], (1, 3, 2)), "top_ids");
    assert_refuses(call(&[0], (1, 2, 3)), "top_logprobs");
    assert_eq!((own, ids, best), ([9.0; 2], [9; 3], [9.0; 3]));
}
