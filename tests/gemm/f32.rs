//! Tests of `gemm::f32`.

use half::bf16;
use proptest::prelude::*;
use vt_kernels::gemm::f32::{Plan, Shape};
use vt_kernels::reduce::lane_sum;
use vt_kernels::{Arch, Element, Rows, RowsMut};

use super::check;
use crate::support::biteq::{assert_biteq, biteq};
use crate::support::strategies::{Rng, any_f32};

fn gemm<T: Element>(k: usize, a: &[T], b: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let (m, n) = (a.len() / k, b.len() / k);
    let mut out = vec![-7.0; m * n];
    let plan = Plan::new(Arch::Sm90a, Shape { n, k }).unwrap();
    let (a, b) = (Rows::new("a", a, m, k).unwrap(), Rows::new("b", b, n, k).unwrap());
    plan.reference(a, b, bias, &mut RowsMut::new("out", &mut out, m, n).unwrap()).unwrap();
    out
}

/// The definition, output by output, with `lane_sum` of `vector` elements.
fn naive<T: Element>(k: usize, vector: usize, a: &[T], b: &[f32]) -> Vec<f32> {
    let dot = |a: &[T], b: &[f32]| lane_sum(k, vector, 32, |acc, i| a[i].to_f32().mul_add(b[i], acc));
    check::stored(a.chunks(k).flat_map(|a| b.chunks(k).map(|b| dot(a, b)).collect::<Vec<_>>()).collect())
}

mod vs_reference {
    use super::*;

    #[test]
    fn equals_lane_sum() {
        for k in [1, 3, 4, 5, 127, 128, 129, 131, 255, 256, 259, 2688] {
            let mut rng = Rng::new(k as u64);
            let (a, b) = (rng.normals(2 * k, 1.0), rng.normals(35 * k, 1.0));
            assert_biteq(&format!("k {k}"), &gemm(k, &a, &b, None), &naive(k, 4, &a, &b));
            let a: Vec<bf16> = a.iter().map(|x| bf16::from_f32(*x)).collect();
            assert_biteq(&format!("bf16, k {k}"), &gemm(k, &a, &b, None), &naive(k, 4, &a, &b));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equals_lane_sum_on_any_bits(
            (k, ab) in (1usize..300).prop_flat_map(|k| (Just(k), prop::collection::vec(any_f32(), 4 * k))),
        ) {
            let (a, b) = ab.split_at(2 * k);
            prop_assert_eq!(biteq("out", &gemm(k, a, b, None), &naive(k, 4, a, b)), Ok(()));
        }

        #[test]
        fn keeps_the_sign_of_what_underflows(k in 1usize..300, at in 0usize..300) {
            // A lane that underflows to -0 must not meet a padding zero, which would make it +0.
            let mut a = vec![-0.0f32; k];
            a[at % k] = -f32::from_bits(1);
            let b = vec![0.25f32; k];
            prop_assert_eq!(biteq("out", &gemm(k, &a, &b, None), &naive(k, 4, &a, &b)), Ok(()));
        }
    }

    #[test]
    fn depends_on_no_other_row_or_tile() {
        let (m, n, k) = (129, 67, 300);
        let mut rng = Rng::new(4);
        let (a, b, bias) = (rng.normals(m * k, 1.0), rng.normals(n * k, 1.0), rng.normals(n, 1.0));
        check::assert_invariant(m, n, |i, j| {
            gemm(k, &a[i.start * k..i.end * k], &b[j.start * k..j.end * k], Some(&bias[j]))
        });
        let plain = gemm(k, &a, &b, None);
        let sum: Vec<f32> = plain.iter().enumerate().map(|(i, x)| x + bias[i % n]).collect();
        assert_biteq("bias", &gemm(k, &a, &b, Some(&bias)), &sum);
    }

    #[test]
    fn strides_and_their_padding_change_nothing() {
        let (m, n, k) = (3, 33, 130);
        let mut rng = Rng::new(6);
        let (a, b) = (rng.normals(m * k, 1.0), rng.normals(n * k, 1.0));
        let (sa, sb) = (check::strided(&a, k, k + 3, f32::NAN), check::strided(&b, k, k + 1, f32::NAN));
        let mut out = vec![5.0f32; m * (n + 2)];
        let plan = Plan::new(Arch::Sm121a, Shape { n, k }).unwrap();
        plan.reference(
            Rows::strided("a", &sa, m, k, k + 3).unwrap(),
            Rows::strided("b", &sb, n, k, k + 1).unwrap(),
            None,
            &mut RowsMut::strided("out", &mut out, m, n, n + 2).unwrap(),
        )
        .unwrap();
        assert_biteq("out", &out, &check::strided(&gemm(k, &a, &b, None), n, n + 2, 5.0));
    }
}

mod vs_paper {
    use super::*;

    #[test]
    fn is_near_the_exact_sum() {
        // A lane folds k / 32 products and the butterfly adds five times, each rounding at 2^-24.
        for k in [1, 100, 2688] {
            let mut rng = Rng::new(100 + k as u64);
            let (a, b) = (rng.normals(3 * k, 2.0), rng.normals(5 * k, 0.1));
            let dot = |a: &[f32], b: &[f32]| {
                let products: Vec<f64> =
                    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).collect();
                let mags: f64 = products.iter().map(|p| p.abs()).sum();
                (products.iter().sum(), (k.div_ceil(32) + 9) as f64 * 2f64.powi(-24) * mags)
            };
            let want: Vec<(f64, f64)> =
                a.chunks(k).flat_map(|a| b.chunks(k).map(|b| dot(a, b)).collect::<Vec<_>>()).collect();
            let got = gemm(k, &a, &b, None);
            check::within("out", &got, &want).unwrap();
            let scaled: Vec<f32> = got.iter().map(|x| x * 1.01).collect();
            assert!(check::within("control", &scaled, &want).is_err());
        }
    }
}

mod errors {
    use super::*;

    #[test]
    fn name_the_argument_and_write_nothing() {
        let plan = Plan::new(Arch::Sm90a, Shape { n: 2, k: 3 }).unwrap();
        let x = [1.0f32; 12];
        let rows = |m, k| Rows::new("x", &x[..m * k], m, k).unwrap();
        let mut buffer = [7.0f32; 4];
        let mut out = RowsMut::new("out", &mut buffer, 2, 2).unwrap();
        check::assert_refuses(plan.reference(rows(2, 4), rows(2, 3), None, &mut out), "a");
        check::assert_refuses(plan.reference(rows(2, 3), rows(3, 3), None, &mut out), "b");
        check::assert_refuses(plan.reference(rows(2, 3), rows(2, 3), Some(&[1.0]), &mut out), "bias");
        check::assert_refuses(plan.reference(rows(1, 3), rows(2, 3), None, &mut out), "out");
        assert_eq!(buffer, [7.0; 4]);
        check::assert_refuses(Plan::new(Arch::Sm90a, Shape { n: 0, k: 1 }), "n");
        check::assert_refuses(Plan::new(Arch::Sm90a, Shape { n: 1, k: 0 }), "k");
        assert!(Plan::new(Arch::Sm80, Shape { n: 1, k: 1 }).is_err());
    }
}

mod controls {
    use super::*;

    #[test]
    fn another_order_is_seen() {
        let k = 2688;
        let mut rng = Rng::new(8);
        let (a, b) = (rng.normals(2 * k, 1.0), rng.normals(16 * k, 1.0));
        let out = gemm(k, &a, &b, None);
        assert!(biteq("out", &naive(k, 8, &a, &b), &out).is_err(), "vectors of 8");
        assert!(biteq("out", &naive(k, 1, &a, &b), &out).is_err(), "vectors of 1");
    }
}
