//! Tests of `gemm::bf16`.

use half::{bf16, f16};
use proptest::prelude::*;
use vt_kernels::gemm::bf16::{Plan, Shape};
use vt_kernels::{Arch, Element, Rows, RowsMut};

use super::check::{self, ARCHS, KS};
use crate::support::biteq::{assert_biteq, biteq};
use crate::support::strategies::{Rng, any_bf16};

fn gemm<O: Element>(arch: Arch, k: usize, a: &[bf16], b: &[bf16], bias: Option<&[f32]>) -> Vec<O> {
    let (m, n) = (a.len() / k, b.len() / k);
    let mut out = vec![O::from_f32(-7.0); m * n];
    let plan = Plan::new(arch, Shape { n, k }).unwrap();
    let (a, b) = (Rows::new("a", a, m, k).unwrap(), Rows::new("b", b, n, k).unwrap());
    plan.reference(a, b, bias, &mut RowsMut::new("out", &mut out, m, n).unwrap()).unwrap();
    out
}

/// The definition, output by output; `join` adds slice sums.
fn naive(arch: Arch, k: usize, a: &[bf16], b: &[bf16], join: impl Fn(&[f32]) -> f32) -> Vec<f32> {
    let dot = |a: &[bf16], b: &[bf16]| join(&check::bf16_sums(arch, a, b));
    check::stored(a.chunks(k).flat_map(|a| b.chunks(k).map(|b| dot(a, b)).collect::<Vec<_>>()).collect())
}

mod vs_reference {
    use super::*;

    #[test]
    fn equals_the_naive_fold() {
        for arch in ARCHS {
            for k in KS {
                let mut rng = Rng::new(k as u64);
                let (a, b) = (rng.normals_bf16(2 * k, 1.0), rng.normals_bf16(35 * k, 1.0));
                let want = naive(arch, k, &a, &b, check::ascending);
                assert_biteq(&format!("{arch} k {k}"), &gemm::<f32>(arch, k, &a, &b, None), &want);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equals_the_naive_fold_on_any_bits(
            (k, ab) in (1usize..40).prop_flat_map(|k| (Just(k), prop::collection::vec(any_bf16(), 5 * k))),
        ) {
            let (a, b) = ab.split_at(2 * k);
            for arch in ARCHS {
                let want = naive(arch, k, a, b, check::ascending);
                prop_assert_eq!(biteq("out", &gemm::<f32>(arch, k, a, b, None), &want), Ok(()));
            }
        }
    }

    #[test]
    fn nan_and_infinities_stay_in_their_row() {
        let k = 520;
        let mut rng = Rng::new(3);
        let (mut a, b) = (rng.normals_bf16(4 * k, 1.0), vec![bf16::ONE; 3 * k]);
        (a[0], a[k + 519], a[2 * k]) = (bf16::from_bits(0xff81), bf16::INFINITY, bf16::NEG_INFINITY);
        a[2 * k + 515] = bf16::INFINITY;
        let out = gemm::<bf16>(Arch::Sm90a, k, &a, &b, Some(&[1.0; 3]));
        assert_biteq("NaN", &out[..3], &[bf16::from_bits(0x7fff); 3]);
        assert_biteq("inf", &out[3..6], &[bf16::INFINITY; 3]);
        assert_biteq("inf - inf over slices", &out[6..9], &[bf16::from_bits(0x7fff); 3]);
        assert!(out[9..].iter().all(|x| x.is_finite()));
    }

    #[test]
    fn depends_on_no_other_row_or_tile() {
        let (m, n, k) = (129, 67, 600);
        let mut rng = Rng::new(4);
        let (a, b, bias) = (rng.normals_bf16(m * k, 1.0), rng.normals_bf16(n * k, 1.0), rng.normals(n, 1.0));
        check::assert_invariant(m, n, |i, j| {
            let (a, b) = (&a[i.start * k..i.end * k], &b[j.start * k..j.end * k]);
            gemm(Arch::Sm121a, k, a, b, Some(&bias[j]))
        });
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| gemm::<f32>(Arch::Sm121a, k, &a, &b, None))
        };
        assert_biteq("threads", &run(1), &run(3));
    }

    #[test]
    fn rounds_once() {
        let k = 70;
        let mut rng = Rng::new(5);
        let (a, b, bias) = (rng.normals_bf16(3 * k, 1.0), rng.normals_bf16(9 * k, 1.0), rng.normals(9, 1.0));
        let plain = gemm::<f32>(Arch::Sm90a, k, &a, &b, None);
        let sum: Vec<f32> = plain.iter().enumerate().map(|(i, x)| x + bias[i % 9]).collect();
        let bias = Some(&bias[..]);
        assert_biteq("bias", &gemm::<f32>(Arch::Sm90a, k, &a, &b, bias), &sum);
        let f16s: Vec<f16> = gemm(Arch::Sm90a, k, &a, &b, bias);
        check::assert_rounds_once(&sum, &gemm(Arch::Sm90a, k, &a, &b, bias), &f16s);
    }

    #[test]
    fn strides_and_their_padding_change_nothing() {
        let (m, n, k) = (3, 33, 21);
        let mut rng = Rng::new(6);
        let (a, b) = (rng.normals_bf16(m * k, 1.0), rng.normals_bf16(n * k, 1.0));
        let (sa, sb) = (check::strided(&a, k, k + 3, bf16::NAN), check::strided(&b, k, k + 1, bf16::NAN));
        let mut out = vec![5.0f32; m * (n + 2)];
        let plan = Plan::new(Arch::Sm121a, Shape { n, k }).unwrap();
        plan.reference(
            Rows::strided("a", &sa, m, k, k + 3).unwrap(),
            Rows::strided("b", &sb, n, k, k + 1).unwrap(),
            None,
            &mut RowsMut::strided("out", &mut out, m, n, n + 2).unwrap(),
        )
        .unwrap();
        assert_biteq("out", &out, &check::strided(&gemm(Arch::Sm121a, k, &a, &b, None), n, n + 2, 5.0));
    }

    #[test]
    fn groups_are_as_if_alone() {
        let (n, k, offsets) = (40, 100, [0u32, 0, 3, 4, 4, 9]);
        let mut rng = Rng::new(7);
        let (a, b) = (rng.normals_bf16(9 * k, 1.0), rng.normals_bf16(5 * n * k, 1.0));
        let experts: Vec<_> = b.chunks(n * k).map(|b| Rows::new("b", b, n, k).unwrap()).collect();
        let mut out = vec![0.0f32; 9 * n];
        let plan = Plan::new(Arch::Sm90a, Shape { n, k }).unwrap();
        let rows = Rows::new("a", &a, 9, k).unwrap();
        plan.reference_grouped(rows, &offsets, &experts, &mut RowsMut::new("out", &mut out, 9, n).unwrap())
            .unwrap();
        for e in 0..5 {
            let (i, j) = (offsets[e] as usize, offsets[e + 1] as usize);
            let alone = gemm(Arch::Sm90a, k, &a[i * k..j * k], &b[e * n * k..][..n * k], None);
            assert_biteq("group", &out[i * n..j * n], &alone);
        }
        let (none, nothing) =
            (Rows::new("a", &[], 0, k).unwrap(), &mut RowsMut::<f32>::new("out", &mut [], 0, n).unwrap());
        plan.reference_grouped(none, &[0], &[], nothing).unwrap();
    }
}

mod vs_paper {
    use super::*;

    #[test]
    fn is_near_the_exact_sum() {
        for arch in ARCHS {
            for k in KS {
                let mut rng = Rng::new(100 + k as u64);
                let (a, b) = (rng.normals_bf16(3 * k, 2.0), rng.normals_bf16(5 * k, 0.1));
                let want = a.chunks(k).flat_map(|a| {
                    b.chunks(k)
                        .map(|b| {
                            let products: Vec<f64> =
                                a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).collect();
                            let mags: Vec<f64> = products.iter().map(|p| p.abs()).collect();
                            (products.iter().sum(), check::bf16_bound(&mags))
                        })
                        .collect::<Vec<_>>()
                });
                let want: Vec<_> = want.collect();
                check::within("out", &gemm(arch, k, &a, &b, None), &want).unwrap();
                let scaled: Vec<f32> = gemm::<f32>(arch, k, &a, &b, None).iter().map(|x| x * 1.01).collect();
                assert!(check::within("control", &scaled, &want).is_err(), "{arch} k {k}");
            }
        }
    }
}

mod errors {
    use super::*;

    #[test]
    fn name_the_argument_and_write_nothing() {
        let plan = Plan::new(Arch::Sm90a, Shape { n: 2, k: 3 }).unwrap();
        let x = [bf16::ONE; 12];
        let rows = |m, k| Rows::new("x", &x[..m * k], m, k).unwrap();
        let mut buffer = [7.0f32; 4];
        let mut out = RowsMut::new("out", &mut buffer, 2, 2).unwrap();
        check::assert_refuses(plan.reference(rows(2, 4), rows(2, 3), None, &mut out), "a");
        check::assert_refuses(plan.reference(rows(2, 3), rows(3, 3), None, &mut out), "b");
        check::assert_refuses(plan.reference(rows(2, 3), rows(2, 3), Some(&[1.0]), &mut out), "bias");
        check::assert_refuses(plan.reference(rows(1, 3), rows(2, 3), None, &mut out), "out");
        let b = [rows(2, 3), rows(2, 3)];
        for offsets in [&[0u32, 2][..], &[0, 1, 2, 2], &[0, 2, 1], &[1, 1, 2], &[0, 1, 3], &[0, 0, 1]] {
            check::assert_refuses(plan.reference_grouped(rows(2, 3), offsets, &b, &mut out), "offsets");
        }
        let b = [rows(2, 3), rows(2, 4)];
        check::assert_refuses(plan.reference_grouped(rows(2, 3), &[0, 1, 2], &b, &mut out), "b");
        assert_eq!(buffer, [7.0; 4]);
    }

    #[test]
    fn refuse_what_has_no_arm() {
        check::assert_refuses(Plan::new(Arch::Sm90a, Shape { n: 0, k: 1 }), "n");
        check::assert_refuses(Plan::new(Arch::Sm90a, Shape { n: 1, k: 0 }), "k");
        for arch in [Arch::Sm80, Arch::Sm89] {
            let refused = vt_kernels::gemm::bf16::supported(arch, &Shape { n: 1, k: 1 }).unwrap_err();
            assert_eq!((refused.kernel, refused.arch), ("gemm/bf16", arch));
            assert!(Plan::new(arch, Shape { n: 1, k: 1 }).is_err());
        }
    }
}

mod controls {
    use super::*;

    #[test]
    fn another_order_or_a_lost_slice_is_seen() {
        let k = 1536;
        let mut rng = Rng::new(8);
        let (a, b) = (rng.normals_bf16(2 * k, 1.0), rng.normals_bf16(64 * k, 1.0));
        let out = gemm::<f32>(Arch::Sm90a, k, &a, &b, None);
        let differs =
            |join: fn(&[f32]) -> f32| biteq("out", &naive(Arch::Sm90a, k, &a, &b, join), &out).is_err();
        assert!(!differs(check::ascending));
        assert!(differs(|s| s[2] + s[1] + s[0]), "slices in descending order");
        assert!(differs(|s| s[0] + s[2]), "a slice dropped");
        let whole = |a: &[bf16], b: &[bf16]| {
            let bits = |x: &[bf16]| x.iter().map(|x| u32::from(x.to_bits())).collect::<Vec<_>>();
            let unit = check::unit(Arch::Sm90a, vt_kernels::mma::Instruction::MmaK16);
            check::slice_sums(&unit, vt_kernels::mma::Format::Bf16, k, &bits(a), &bits(b))[0]
        };
        let unsliced: Vec<f32> =
            a.chunks(k).flat_map(|a| b.chunks(k).map(|b| whole(a, b)).collect::<Vec<_>>()).collect();
        assert!(biteq("out", &unsliced, &out).is_err(), "no slices");
    }
}
