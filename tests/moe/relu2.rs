//! `moe/relu2`.

use half::bf16;
use vt_kernels::moe::relu2::{Plan, Shape};
use vt_kernels::{Arch, Element};

use crate::support::biteq::{assert_biteq, biteq};
use crate::support::padded::{Padded, assert_refuses};

/// Every bf16, in rows of 256 with padding.
fn all() -> Padded<bf16> {
    let mut bits = 0..=u16::MAX;
    Padded::new(256, 256, 3, bf16::NAN, || bf16::from_bits(bits.next().unwrap()))
}

mod vs_paper {
    use super::*;

    /// `max(x, 0)²`, exact in f64, then one rounding to f32 and one to bf16.
    fn want(x: bf16) -> bf16 {
        let positive = f64::from(x.to_f32()).max(0.0);
        if x.is_nan() { bf16::from_bits(0x7fff) } else { Element::from_f32((positive * positive) as f32) }
    }

    #[test]
    fn every_bf16() {
        let x = all();
        let mut out = Padded::<bf16>::poisoned(256, 256, 1);
        let plan = Plan::new(Arch::Sm90a, Shape { cols: 256 }).unwrap();
        plan.reference(x.view(), &mut out.view_mut()).unwrap();
        out.assert_padding();
        let want: Vec<bf16> = x.values().into_iter().map(want).collect();
        assert_biteq("out", &out.values(), &want);
    }

    mod controls {
        use super::*;

        #[test]
        fn a_square_without_the_relu_is_seen() {
            let squares: Vec<bf16> =
                all().values().iter().map(|x| Element::from_f32(x.to_f32() * x.to_f32())).collect();
            let right: Vec<bf16> = all().values().into_iter().map(want).collect();
            assert!(biteq("out", &squares, &right).is_err());
        }
    }
}

#[test]
fn errors_name_the_argument() {
    let plan = Plan::new(Arch::Sm90a, Shape { cols: 2 }).unwrap();
    let (right, wrong) = (Padded::<f32>::poisoned(1, 2, 0), Padded::<f32>::poisoned(1, 3, 0));
    assert_refuses(plan.reference(wrong.view(), &mut right.clone().view_mut()), "x");
    assert_refuses(plan.reference(right.view(), &mut wrong.clone().view_mut()), "out");
    let mut none = Padded::<f32>::poisoned(0, 2, 0);
    plan.reference(Padded::<f32>::poisoned(0, 2, 0).view(), &mut none.view_mut()).unwrap();
}
