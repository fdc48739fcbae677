//! `norm/residual_add`.

use half::{bf16, f16};
use proptest::prelude::*;
use vt_kernels::norm::residual_add::{Plan, Shape};
use vt_kernels::{Arch, Element};

use crate::support::biteq::{Bits, assert_biteq, biteq};
use crate::support::padded::{Padded, assert_refuses};
use crate::support::strategies::Rng;

fn check<A: Element + Bits, B: Element + Bits, O: Element + Bits>(
    seed: u64,
    rows: usize,
    cols: usize,
    pad: usize,
) {
    let mut rng = Rng::new(seed);
    let a = Padded::<A>::extreme(&mut rng, rows, cols, pad);
    let b = Padded::<B>::extreme(&mut rng, rows, cols, pad + 1);
    let mut out = Padded::<O>::poisoned(rows, cols, pad + 2);
    let plan = Plan::new(Arch::Sm90a, Shape { cols }).unwrap();
    plan.reference(a.view(), b.view(), &mut out.view_mut()).unwrap();
    out.assert_padding();
    let sums = a.values().into_iter().zip(b.values()).map(|(a, b)| O::from_f32(a.to_f32() + b.to_f32()));
    assert_biteq("out", &out.values(), &sums.collect::<Vec<_>>());
}

mod vs_reference {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn one_rounding_in_every_type(seed: u64, rows in 0usize..4, cols in 0usize..70, pad in 0usize..4) {
            check::<bf16, bf16, bf16>(seed, rows, cols, pad);
            check::<bf16, f32, f32>(seed, rows, cols, pad);
            check::<f32, bf16, f16>(seed, rows, cols, pad);
        }
    }
}

mod controls {
    use super::*;

    #[test]
    fn two_roundings_are_seen() {
        let mut rng = Rng::new(2);
        let (a, b) = (
            Padded::<f32>::normal(&mut rng, 1, 999, 0, 1.0),
            Padded::<f32>::normal(&mut rng, 1, 999, 0, 1.0),
        );
        let mut out = Padded::<bf16>::poisoned(1, 999, 0);
        let plan = Plan::new(Arch::Sm90a, Shape { cols: 999 }).unwrap();
        plan.reference(a.view(), b.view(), &mut out.view_mut()).unwrap();
        let round = |x: f32| bf16::from_f32(x).to_f32();
        let twice = a.values().into_iter().zip(b.values()).map(|(a, b)| bf16::from_f32(round(a) + round(b)));
        assert!(biteq("out", &out.values(), &twice.collect::<Vec<_>>()).is_err());
    }
}

#[test]
fn errors_name_the_argument() {
    let plan = Plan::new(Arch::Sm90a, Shape { cols: 3 }).unwrap();
    let (right, wrong) = (Padded::<f32>::poisoned(2, 3, 0), Padded::<f32>::poisoned(2, 4, 0));
    let mut out = right.clone();
    assert_refuses(plan.reference(wrong.view(), right.view(), &mut out.view_mut()), "a");
    assert_refuses(plan.reference(right.view(), wrong.view(), &mut out.view_mut()), "b");
    let mut out = Padded::<f32>::poisoned(1, 3, 0);
    assert_refuses(plan.reference(right.view(), right.view(), &mut out.view_mut()), "out");
}
