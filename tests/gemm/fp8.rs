//! Tests of `gemm::fp8`.

use half::f16;
use proptest::prelude::*;
use vt_kernels::format::E4m3;
use vt_kernels::gemm::fp8::{Plan, Scale, Shape};
use vt_kernels::mma::{Format, Instruction};
use vt_kernels::{Arch, Element, Rows, RowsMut};

use super::check::{self, ARCHS};
use crate::support::biteq::{assert_biteq, biteq};
use crate::support::strategies::Rng;

const KS: [usize; 8] = [16, 32, 112, 128, 144, 528, 1856, 2688];

struct Case<'a> {
    arch: Arch,
    k: usize,
    a: &'a [E4m3],
    a_scale: Scale<'a>,
    b: &'a [E4m3],
    b_scale: Scale<'a>,
}

impl Case<'_> {
    fn out<O: Element>(&self, bias: Option<&[f32]>) -> Vec<O> {
        let (m, n, k) = (self.a.len() / self.k, self.b.len() / self.k, self.k);
        let mut out = vec![O::from_f32(-7.0); m * n];
        let plan = Plan::new(self.arch, Shape { n, k }).unwrap();
        let (a, b) = (Rows::new("a", self.a, m, k).unwrap(), Rows::new("b", self.b, n, k).unwrap());
        let mut view = RowsMut::new("out", &mut out, m, n).unwrap();
        plan.reference(a, self.a_scale, b, self.b_scale, bias, &mut view).unwrap();
        out
    }

    /// The definition, output by output; `join` adds slice sums, `scale` applies both scales.
    fn naive(&self, join: fn(&[f32]) -> f32, scale: fn(f32, f32, f32) -> f32) -> Vec<f32> {
        let of = |s: Scale, i: usize| match s {
            Scale::PerTensor(s) => s,
            Scale::PerRow(s) => s[i],
        };
        let mut out = Vec::new();
        for (i, a) in self.a.chunks(self.k).enumerate() {
            for (j, b) in self.b.chunks(self.k).enumerate() {
                let sum = join(&slice_sums(self.arch, a, b));
                out.push(scale(sum, of(self.a_scale, i), of(self.b_scale, j)));
            }
        }
        check::stored(out)
    }
}

/// sm_90a folds slices of 128, sm_121a all of K.
fn slice_sums(arch: Arch, a: &[E4m3], b: &[E4m3]) -> Vec<f32> {
    let bits = |x: &[E4m3]| x.iter().map(|x| u32::from(x.to_bits())).collect::<Vec<_>>();
    let (instruction, slice) = match arch {
        Arch::Sm90a => (Instruction::WgmmaFp8K32, 128),
        _ => (Instruction::MmaFp8K32, a.len()),
    };
    check::slice_sums(&check::unit(arch, instruction), Format::E4m3, slice, &bits(a), &bits(b))
}

fn scaled(sum: f32, a_scale: f32, b_scale: f32) -> f32 {
    sum * (a_scale * b_scale)
}

fn codes(rng: &mut Rng, n: usize, scale: f32) -> Vec<E4m3> {
    (0..n).map(|_| E4m3::from_f32(rng.normal(scale))).collect()
}

fn scales(rng: &mut Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| 0.01 + rng.below(1000) as f32 / 777.0).collect()
}

mod vs_reference {
    use super::*;

    #[test]
    fn equals_the_naive_fold() {
        for (arch, k) in ARCHS.into_iter().flat_map(|arch| KS.map(|k| (arch, k))) {
            let mut rng = Rng::new(k as u64);
            let (a, b) = (codes(&mut rng, 2 * k, 8.0), codes(&mut rng, 35 * k, 8.0));
            let (sa, sb) = (scales(&mut rng, 2), scales(&mut rng, 35));
            for (a_scale, b_scale) in
                [(Scale::PerTensor(sa[0]), Scale::PerTensor(sb[0])), (Scale::PerRow(&sa), Scale::PerRow(&sb))]
            {
                let case = Case { arch, k, a: &a, a_scale, b: &b, b_scale };
                assert_biteq(
                    &format!("{arch} k {k}"),
                    &case.out(None),
                    &case.naive(check::ascending, scaled),
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn equals_the_naive_fold_on_any_bits(
            (k, ab) in (1usize..4).prop_flat_map(|k| (Just(16 * k), prop::collection::vec(any::<u8>(), 5 * 16 * k))),
            all_nan in any::<bool>(),
        ) {
            // A row of random codes is seldom without a NaN: mask most of them away.
            let code = |x: &u8| E4m3::from_bits(if all_nan || x & 0x7f != 0x7f { *x } else { 0x7e });
            let codes: Vec<E4m3> = ab.iter().map(code).collect();
            let (a, b) = codes.split_at(2 * k);
            for arch in ARCHS {
                let (a_scale, b_scale) = (Scale::PerTensor(0.3), Scale::PerTensor(1e-3));
                let case = Case { arch, k, a, a_scale, b, b_scale };
                prop_assert_eq!(biteq("out", &case.out(None), &case.naive(check::ascending, scaled)), Ok(()));
            }
        }
    }

    #[test]
    fn nan_stays_in_its_row() {
        let k = 160;
        let mut a = vec![E4m3::from_f32(1.0); 2 * k];
        a[150] = E4m3::from_bits(0xff);
        let b = vec![E4m3::from_f32(1.0); 3 * k];
        for arch in ARCHS {
            let case = Case {
                arch,
                k,
                a: &a,
                a_scale: Scale::PerTensor(1.0),
                b: &b,
                b_scale: Scale::PerTensor(1.0),
            };
            let nan = f32::from_bits(0x7fff_ffff);
            assert_biteq("out", &case.out(None), &[nan, nan, nan, 160.0, 160.0, 160.0]);
        }
    }

    #[test]
    fn depends_on_no_other_row_or_tile() {
        let (m, n, k) = (129, 67, 272);
        let mut rng = Rng::new(4);
        let (a, b) = (codes(&mut rng, m * k, 4.0), codes(&mut rng, n * k, 4.0));
        let (sa, sb, bias) = (scales(&mut rng, m), scales(&mut rng, n), rng.normals(n, 1.0));
        for arch in ARCHS {
            check::assert_invariant(m, n, |i, j| {
                let (a_scale, b_scale) = (Scale::PerRow(&sa[i.clone()]), Scale::PerRow(&sb[j.clone()]));
                let (a, b) = (&a[i.start * k..i.end * k], &b[j.start * k..j.end * k]);
                Case { arch, k, a, a_scale, b, b_scale }.out(Some(&bias[j]))
            });
        }
    }

    #[test]
    fn rounds_once() {
        let k = 64;
        let mut rng = Rng::new(5);
        let (a, b, bias) = (codes(&mut rng, 3 * k, 4.0), codes(&mut rng, 9 * k, 4.0), rng.normals(9, 9.0));
        let (a_scale, b_scale) = (Scale::PerTensor(0.1), Scale::PerTensor(0.7));
        let case = Case { arch: Arch::Sm121a, k, a: &a, a_scale, b: &b, b_scale };
        let sum: Vec<f32> = case.out::<f32>(None).iter().enumerate().map(|(i, x)| x + bias[i % 9]).collect();
        assert_biteq("bias", &case.out(Some(&bias)), &sum);
        check::assert_rounds_once(&sum, &case.out(Some(&bias)), &case.out::<f16>(Some(&bias)));
    }

    #[test]
    fn strides_and_their_padding_change_nothing() {
        let (m, n, k) = (3, 33, 48);
        let mut rng = Rng::new(6);
        let (a, b) = (codes(&mut rng, m * k, 4.0), codes(&mut rng, n * k, 4.0));
        let poison = E4m3::from_bits(0x7f);
        let (wide_a, wide_b) = (check::strided(&a, k, k + 3, poison), check::strided(&b, k, k + 1, poison));
        let (a_scale, b_scale) = (Scale::PerTensor(0.1), Scale::PerTensor(0.7));
        let mut out = vec![5.0f32; m * (n + 2)];
        let plan = Plan::new(Arch::Sm90a, Shape { n, k }).unwrap();
        plan.reference(
            Rows::strided("a", &wide_a, m, k, k + 3).unwrap(),
            a_scale,
            Rows::strided("b", &wide_b, n, k, k + 1).unwrap(),
            b_scale,
            None,
            &mut RowsMut::strided("out", &mut out, m, n, n + 2).unwrap(),
        )
        .unwrap();
        let contiguous = Case { arch: Arch::Sm90a, k, a: &a, a_scale, b: &b, b_scale }.out(None);
        assert_biteq("out", &out, &check::strided(&contiguous, n, n + 2, 5.0));
    }

    #[test]
    fn groups_are_as_if_alone() {
        let (n, k, offsets) = (40, 144, [0u32, 0, 3, 4, 4, 9]);
        let mut rng = Rng::new(7);
        let (a, b) = (codes(&mut rng, 9 * k, 4.0), codes(&mut rng, 5 * n * k, 4.0));
        let (sa, sb) = (scales(&mut rng, 5), scales(&mut rng, 5));
        let experts: Vec<_> = b.chunks(n * k).map(|b| Rows::new("b", b, n, k).unwrap()).collect();
        for arch in ARCHS {
            let mut out = vec![0.0f32; 9 * n];
            let plan = Plan::new(arch, Shape { n, k }).unwrap();
            let mut view = RowsMut::new("out", &mut out, 9, n).unwrap();
            let rows = Rows::new("a", &a, 9, k).unwrap();
            plan.reference_grouped(rows, &sa, &offsets, &experts, &sb, &mut view).unwrap();
            for e in 0..5 {
                let (i, j) = (offsets[e] as usize, offsets[e + 1] as usize);
                let (a_scale, b_scale) = (Scale::PerTensor(sa[e]), Scale::PerTensor(sb[e]));
                let (a, b) = (&a[i * k..j * k], &b[e * n * k..][..n * k]);
                let alone = Case { arch, k, a, a_scale, b, b_scale };
                assert_biteq("group", &out[i * n..j * n], &alone.out(None));
            }
        }
    }
}

mod vs_paper {
    use super::*;

    #[test]
    fn is_near_the_exact_sum() {
        // The unit's exponent of a subnormal is that of 2^-6.
        let mag = |x: E4m3| if x.to_f32() == 0.0 { 0.0 } else { f64::from(x.to_f32().abs().max(0.015625)) };
        for (arch, k) in ARCHS.into_iter().flat_map(|arch| KS.map(|k| (arch, k))) {
            let mut rng = Rng::new(100 + k as u64);
            // Positive on average, so that a wrong factor exceeds the bound of 13 bits.
            let mut codes = |n| (0..n).map(|_| E4m3::from_f32(2.0 + rng.normal(1.0))).collect::<Vec<_>>();
            let (a, b) = (codes(3 * k), codes(5 * k));
            let (a_scale, b_scale) = (0.5f32, 0.3f32);
            let scale = f64::from(a_scale) * f64::from(b_scale);
            let mut want = Vec::new();
            for (a, b) in a.chunks(k).flat_map(|a| b.chunks(k).map(move |b| (a, b))) {
                let exact: f64 =
                    a.iter().zip(b).map(|(a, b)| f64::from(a.to_f32()) * f64::from(b.to_f32())).sum();
                let mags: Vec<f64> = a.iter().zip(b).map(|(a, b)| mag(*a) * mag(*b)).collect();
                let bound = match arch {
                    Arch::Sm90a => check::bound(&mags, 128, 32, 32, 13, 13),
                    _ => check::bound(&mags, k, 32, 32, 25, 23),
                };
                want.push((exact * scale, bound * scale));
            }
            let (a_scale, b_scale) = (Scale::PerTensor(a_scale), Scale::PerTensor(b_scale));
            let case = Case { arch, k, a: &a, a_scale, b: &b, b_scale };
            check::within(&format!("{arch} k {k}"), &case.out(None), &want).unwrap();
            let twice = case.naive(check::ascending, |sum, a, b| sum * (a * b) * b);
            assert!(check::within("control", &twice, &want).is_err(), "{arch} k {k}: a scale applied twice");
        }
    }
}

mod errors {
    use super::*;

    #[test]
    fn name_the_argument_and_write_nothing() {
        let plan = Plan::new(Arch::Sm90a, Shape { n: 2, k: 16 }).unwrap();
        let x = [E4m3::from_f32(1.0); 64];
        let rows = |m, k| Rows::new("x", &x[..m * k], m, k).unwrap();
        let (good, one, row) = (rows(2, 16), Scale::PerTensor(1.0), Scale::PerRow(&[1.0]));
        let mut buffer = [7.0f32; 4];
        let mut out = RowsMut::new("out", &mut buffer, 2, 2).unwrap();
        check::assert_refuses(plan.reference(rows(2, 17), one, good, one, None, &mut out), "a");
        check::assert_refuses(plan.reference(good, row, good, one, None, &mut out), "a_scale");
        check::assert_refuses(plan.reference(good, one, rows(3, 16), one, None, &mut out), "b");
        check::assert_refuses(plan.reference(good, one, good, row, None, &mut out), "b_scale");
        check::assert_refuses(plan.reference(good, one, good, one, Some(&[1.0]), &mut out), "bias");
        check::assert_refuses(plan.reference(rows(1, 16), one, good, one, None, &mut out), "out");
        let b = [good];
        check::assert_refuses(plan.reference_grouped(good, &[], &[0, 2], &b, &[1.0], &mut out), "a_scales");
        check::assert_refuses(plan.reference_grouped(good, &[1.0], &[0, 2], &b, &[], &mut out), "b_scales");
        check::assert_refuses(plan.reference_grouped(good, &[1.0], &[0, 1], &b, &[1.0], &mut out), "offsets");
        assert_eq!(buffer, [7.0; 4]);
        check::assert_refuses(Plan::new(Arch::Sm90a, Shape { n: 1, k: 24 }), "k");
        assert!(Plan::new(Arch::Sm89, Shape { n: 1, k: 16 }).is_err());
    }
}

mod controls {
    use super::*;

    #[test]
    fn another_order_or_scale_is_seen() {
        let k = 384;
        let mut rng = Rng::new(8);
        // Slice sums have 13 bits: only where their magnitudes differ does f32 round when they join.
        let mut codes = |n: usize| -> Vec<E4m3> {
            (0..n).map(|i| E4m3::from_f32(rng.normal([30.0, 1.0, 0.05][i % k / 128]))).collect()
        };
        let (a, b) = (codes(4 * k), codes(64 * k));
        let (a_scale, b_scale) = (Scale::PerTensor(0.3), Scale::PerTensor(0.7));
        let case = Case { arch: Arch::Sm90a, k, a: &a, a_scale, b: &b, b_scale };
        let out = case.out::<f32>(None);
        let differs = |join, scale| biteq("out", &case.naive(join, scale), &out).is_err();
        assert!(!differs(check::ascending, scaled));
        assert!(differs(|s| s[2] + s[1] + s[0], scaled), "slices in descending order");
        assert!(differs(|s| s[0] + s[1], scaled), "a slice dropped");
        assert!(differs(check::ascending, |sum, a, b| sum * a * b), "scales applied one by one");
        let wide = Case { arch: Arch::Sm121a, k, a: &a, a_scale, b: &b, b_scale };
        assert!(biteq("out", &wide.out(None), &out).is_err(), "the other arm");
    }
}
