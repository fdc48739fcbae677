//! `moe/gather`.

use half::bf16;
use proptest::prelude::*;
use vt_kernels::Arch;
use vt_kernels::moe::gather::{Plan, Shape};

use crate::support::biteq::{assert_biteq, biteq};
use crate::support::padded::{Padded, assert_refuses};
use crate::support::strategies::Rng;

fn gather(x: &Padded<bf16>, top_k: usize, source: &[u32]) -> Padded<bf16> {
    let cols = x.view().cols();
    let mut out = Padded::poisoned(source.len(), cols, 1);
    let plan = Plan::new(Arch::Sm90a, Shape { cols, top_k }).unwrap();
    plan.reference(x.view(), source, &mut out.view_mut()).unwrap();
    out.assert_padding();
    out
}

mod vs_reference {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Any bits, NaN among them, arrive unchanged.
        #[test]
        fn rows_arrive_unchanged(seed: u64, tokens in 0usize..9, top_k in 1usize..5, cols in 0usize..40, pad in 0usize..3) {
            let mut rng = Rng::new(seed);
            let x = Padded::new(tokens, cols, pad, bf16::NAN, || bf16::from_bits(rng.bits() as u16));
            let mut source: Vec<u32> = (0..(tokens * top_k) as u32).collect();
            let mut rng = Rng::new(seed ^ 1);
            (1..source.len()).for_each(|i| source.swap(i, rng.below(i + 1)));
            let out = gather(&x, top_k, &source);
            for (row, slot) in source.iter().enumerate() {
                assert_biteq("row", &out.row(row), &x.row(*slot as usize / top_k));
            }
        }
    }
}

mod controls {
    use super::*;

    #[test]
    fn slots_taken_for_tokens_are_seen() {
        let x = Padded::<bf16>::normal(&mut Rng::new(1), 4, 8, 0, 1.0);
        let out = gather(&x, 2, &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(biteq("rows", &out.slice(0..4).values(), &x.values()).is_err());
    }
}

#[test]
fn errors_name_the_argument() {
    assert_refuses(Plan::new(Arch::Sm90a, Shape { cols: 1, top_k: 0 }), "top_k");
    let plan = Plan::new(Arch::Sm90a, Shape { cols: 2, top_k: 2 }).unwrap();
    let x = Padded::<bf16>::normal(&mut Rng::new(1), 1, 2, 0, 1.0);
    let mut out = Padded::<bf16>::poisoned(2, 2, 0);
    assert_refuses(plan.reference(x.view(), &[0, 2], &mut out.view_mut()), "source");
    assert_refuses(plan.reference(x.view(), &[0], &mut out.view_mut()), "source");
    let mut few = Padded::<bf16>::poisoned(1, 2, 0);
    assert_refuses(plan.reference(x.view(), &[0, 1], &mut few.view_mut()), "out");
    let wide = Padded::<bf16>::poisoned(1, 3, 0);
    assert_refuses(plan.reference(wide.view(), &[0, 1], &mut out.view_mut()), "x");
}
