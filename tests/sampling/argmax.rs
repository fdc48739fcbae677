//! `sampling/argmax`.

use proptest::prelude::*;
use vt_kernels::Arch;
use vt_kernels::sampling::argmax::{Plan, Shape};

use crate::support::padded::{Padded, assert_refuses, extreme};
use crate::support::strategies::Rng;

fn argmax(logits: &Padded<f32>) -> Vec<u32> {
    let mut ids = vec![u32::MAX; logits.view().rows()];
    let plan = Plan::new(Arch::Sm90a, Shape { vocab: logits.view().cols() }).unwrap();
    plan.reference(logits.view(), &mut ids).unwrap();
    ids
}

fn row(logits: &[f32]) -> u32 {
    let mut values = logits.iter().copied();
    argmax(&Padded::new(1, logits.len(), 0, 0.0, || values.next().unwrap()))[0]
}

mod vs_reference {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The first index of the largest number, by sorting; poison between rows.
        #[test]
        fn lowest_index_of_the_largest(seed: u64, rows in 0usize..4, vocab in 1usize..600, coarse: bool) {
            let mut rng = Rng::new(seed);
            let logits = Padded::new(rows, vocab, 3, f32::INFINITY, || {
                let x = extreme(&mut rng);
                if coarse { x.round() } else { x }
            });
            for (i, id) in argmax(&logits).into_iter().enumerate() {
                let row = logits.row(i);
                let mut order: Vec<usize> = (0..vocab).filter(|i| row[*i] > f32::NEG_INFINITY).collect();
                order.sort_by(|a, b| row[*b].partial_cmp(&row[*a]).unwrap());
                assert_eq!(id as usize, order.first().copied().unwrap_or(0));
            }
        }
    }

    #[test]
    fn ties_zeros_and_nothing_to_choose() {
        assert_eq!(row(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(row(&[-0.0, 0.0]), 0);
        assert_eq!(row(&[f32::NAN, -5.0]), 1);
        assert_eq!(row(&[f32::NAN, f32::NEG_INFINITY, f32::NAN]), 0);
    }
}

mod controls {
    use super::*;

    #[test]
    fn the_last_of_equals_would_be_seen() {
        assert_ne!(row(&[2.0, 2.0]), 1);
    }
}

#[test]
fn errors_name_the_argument() {
    assert_refuses(Plan::new(Arch::Sm90a, Shape { vocab: 0 }), "vocab");
    let plan = Plan::new(Arch::Sm90a, Shape { vocab: 4 }).unwrap();
    let logits = Padded::<f32>::poisoned(2, 4, 0);
    assert_refuses(plan.reference(logits.view(), &mut [0]), "ids");
    assert_refuses(plan.reference(Padded::<f32>::poisoned(2, 3, 0).view(), &mut [0, 0]), "logits");
}
