//! `moe/combine`.

use half::bf16;
use proptest::prelude::*;
use vt_kernels::moe::combine::{Plan, Shape};
use vt_kernels::{Arch, Element};

use crate::support::biteq::{assert_biteq, biteq};
use crate::support::padded::{Padded, assert_refuses, within};
use crate::support::strategies::Rng;

struct Case {
    experts: Padded<bf16>,
    position: Vec<u32>,
    weights: Padded<f32>,
    shared: Padded<bf16>,
}

impl Case {
    fn new(seed: u64, tokens: usize, top_k: usize, cols: usize, extreme: bool) -> Self {
        let mut rng = Rng::new(seed);
        let mut position: Vec<u32> = (0..(tokens * top_k) as u32).collect();
        (1..position.len()).for_each(|i| position.swap(i, rng.below(i + 1)));
        let experts = match extreme {
            true => Padded::extreme(&mut rng, tokens * top_k, cols, 2),
            false => Padded::normal(&mut rng, tokens * top_k, cols, 2, 1.0),
        };
        let weights = Padded::new(tokens, top_k, 1, f32::NAN, || rng.normal(1.0).abs());
        let mut rng = Rng::new(!seed);
        Case { experts, position, weights, shared: Padded::normal(&mut rng, tokens, cols, 3, 1.0) }
    }

    fn run(&self, with_shared: bool, factor: f32) -> Padded<f32> {
        let (tokens, cols) = (self.shared.view().rows(), self.shared.view().cols());
        let mut out = Padded::poisoned(tokens, cols, 1);
        let plan = Plan::new(Arch::Sm90a, Shape { cols, top_k: self.weights.view().cols() }).unwrap();
        let shared = with_shared.then(|| self.shared.view());
        let (experts, weights) = (self.experts.view(), self.weights.view());
        plan.reference(experts, &self.position, weights, shared, &mut out.view_mut(), factor).unwrap();
        out.assert_padding();
        out
    }

    /// Terms `w · x` of an output element.
    fn terms(&self, t: usize, c: usize) -> Vec<(f32, f32)> {
        let top_k = self.weights.view().cols();
        let row = |j: usize| self.position[t * top_k + j] as usize;
        (0..top_k).map(|j| (self.weights.row(t)[j], self.experts.row(row(j))[c].to_f32())).collect()
    }
}

mod vs_reference {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn equals_the_stated_order(seed: u64, tokens in 0usize..5, top_k in 1usize..8, cols in 1usize..40, with_shared: bool, extreme: bool) {
            let case = Case::new(seed, tokens, top_k, cols, extreme);
            let got = case.run(with_shared, 2.5);
            for t in 0..tokens {
                for c in 0..cols {
                    let sum = case.terms(t, c).iter().fold(0.0f32, |sum, (w, x)| w.mul_add(*x, sum));
                    let mut want = 2.5 * sum;
                    if with_shared {
                        want += case.shared.row(t)[c].to_f32();
                    }
                    assert_biteq("out", &got.row(t)[c..=c], &[<f32 as Element>::from_f32(want)]);
                }
            }
        }
    }
}

mod vs_paper {
    use super::*;

    fn check(factor: f64) -> Result<(), String> {
        let case = Case::new(7, 4, 6, 32, false);
        let got = case.run(true, 2.5).f64s();
        let want: Vec<f64> = (0..4 * 32)
            .map(|at| {
                let (t, c) = (at / 32, at % 32);
                let terms = case.terms(t, c);
                let routed: f64 = terms.iter().map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                factor * routed + case.shared.row(t)[c].to_f64()
            })
            .collect();
        // Eight roundings of sums below 32.
        within(&got, &want, |_| 8.0 * 32.0 * 2f64.powi(-24))
    }

    #[test]
    fn equals_the_formula_in_f64() {
        check(2.5).unwrap();
    }

    mod controls {
        use super::*;

        #[test]
        fn a_scale_applied_twice_or_to_the_shared_expert_is_seen() {
            assert!(check(6.25).is_err());
            let case = Case::new(7, 4, 6, 32, false);
            let scaled: Vec<f32> = (0..4 * 32)
                .map(|at| {
                    let (t, c) = (at / 32, at % 32);
                    let sum = case.terms(t, c).iter().fold(0.0f32, |sum, (w, x)| w.mul_add(*x, sum));
                    2.5 * (sum + case.shared.row(t)[c].to_f32())
                })
                .collect();
            assert!(biteq("out", &case.run(true, 2.5).values(), &scaled).is_err());
        }
    }
}

#[test]
fn errors_name_the_argument() {
    assert_refuses(Plan::new(Arch::Sm90a, Shape { cols: 1, top_k: 0 }), "top_k");
    let case = Case::new(1, 2, 2, 3, false);
    let plan = Plan::new(Arch::Sm90a, Shape { cols: 3, top_k: 2 }).unwrap();
    let mut out = Padded::<f32>::poisoned(2, 3, 0);
    let (experts, weights, shared) = (case.experts.view(), case.weights.view(), case.shared.view());
    let mut call = |experts, position: &[u32], weights, shared| {
        plan.reference(experts, position, weights, Some(shared), &mut out.view_mut(), 1.0)
    };
    assert_refuses(call(shared, &case.position, weights, shared), "expert_out");
    assert_refuses(call(experts, &case.position[1..], weights, shared), "position");
    assert_refuses(call(experts, &[0, 1, 2, 4], weights, shared), "position");
    assert_refuses(call(experts, &case.position, weights, experts), "shared");
    let narrow = Padded::<f32>::poisoned(2, 1, 0);
    assert_refuses(call(experts, &case.position, narrow.view(), shared), "weights");
    let mut few = Padded::<f32>::poisoned(1, 3, 0);
    let few = plan.reference(experts, &case.position, weights, None, &mut few.view_mut(), 1.0);
    assert_refuses(few, "out");
}
