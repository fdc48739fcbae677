//! Tests of `gemm::nvfp4`.

use half::f16;
use vt_kernels::format::{Nvfp4, Nvfp4Ref};
use vt_kernels::gemm::nvfp4::{Plan, Shape};
use vt_kernels::mma::{Format, Instruction, Operand};
use vt_kernels::{Arch, Element, Rows, RowsMut};

use super::check;
use crate::support::biteq::{assert_biteq, biteq};
use crate::support::strategies::Rng;

const ARCH: Arch = Arch::Sm121a;
const KS: [usize; 8] = [32, 64, 96, 128, 480, 1056, 1856, 2688];

/// Random codes; scales of all exponents up to `limit`, which is at most 0x7e.
pub(crate) fn random(rng: &mut Rng, rows: usize, cols: usize, limit: usize, global_scale: f32) -> Nvfp4 {
    let packed = (0..rows * cols / 2).map(|_| rng.bits() as u8).collect();
    let scales = (0..rows * cols / 16).map(|_| rng.below(limit + 1) as u8).collect();
    Nvfp4::new("x", rows, cols, packed, scales, global_scale).unwrap()
}

fn gemm<O: Element>(a: Nvfp4Ref, b: Nvfp4Ref, bias: Option<&[f32]>) -> Vec<O> {
    let mut out = vec![O::from_f32(-7.0); a.rows() * b.rows()];
    let plan = Plan::new(ARCH, Shape { n: b.rows(), k: b.cols() }).unwrap();
    let mut view = RowsMut::new("out", &mut out, a.rows(), b.rows()).unwrap();
    plan.reference(a, b, bias, &mut view).unwrap();
    out
}

/// A row's codes and scales, padded with zeros to whole steps.
fn row(x: Nvfp4Ref, i: usize) -> (Vec<u32>, Vec<u8>) {
    let mut codes: Vec<u32> =
        x.packed_row(i).iter().flat_map(|byte| [u32::from(byte & 15), u32::from(byte >> 4)]).collect();
    let mut scales = x.scales_row(i).to_vec();
    codes.resize(x.cols().next_multiple_of(64), 0);
    scales.resize(codes.len() / 16, 0);
    (codes, scales)
}

/// The definition, output by output; `finish` applies the two global scales.
fn naive(a: Nvfp4Ref, b: Nvfp4Ref, finish: fn(f32, f32, f32) -> f32) -> Vec<f32> {
    let unit = check::unit(ARCH, Instruction::MmaFp4K64);
    let mut out = Vec::new();
    for i in 0..a.rows() {
        let (a_codes, a_scales) = row(a, i);
        let x = Operand { format: Format::E2m1, bits: &a_codes, scale: Some((Format::Ue4m3, &a_scales)) };
        for j in 0..b.rows() {
            let (b_codes, b_scales) = row(b, j);
            let y = Operand { format: Format::E2m1, bits: &b_codes, scale: Some((Format::Ue4m3, &b_scales)) };
            let sum = f32::from_bits(unit.dot(x, y, 0).unwrap());
            out.push(finish(sum, a.global_scale(), b.global_scale()));
        }
    }
    check::stored(out)
}

fn alpha(sum: f32, a: f32, b: f32) -> f32 {
    sum * (a * b)
}

mod vs_reference {
    use super::*;

    #[test]
    fn equals_the_naive_fold() {
        for k in KS {
            let mut rng = Rng::new(k as u64);
            for limit in [0, 0x10, 0x7e] {
                let a = random(&mut rng, 2, k, limit, 0.013);
                let b = random(&mut rng, 35, k, 0x7e, 0.37);
                assert_biteq(
                    &format!("k {k}"),
                    &gemm(a.view(), b.view(), None),
                    &naive(a.view(), b.view(), alpha),
                );
            }
        }
    }

    #[test]
    fn a_nan_scale_stays_in_its_row() {
        let k = 96;
        let mut rng = Rng::new(2);
        let (packed, mut scales) = (vec![0x22u8; 2 * k / 2], vec![0x38u8; 2 * k / 16]);
        scales[5] = 0x7f;
        let (packed, scales) = (
            Rows::new("packed", &packed, 2, k / 2).unwrap(),
            Rows::new("scales", &scales, 2, k / 16).unwrap(),
        );
        let a = Nvfp4Ref::new("a", packed, scales, 1.0).unwrap();
        let b = random(&mut rng, 3, k, 0x40, 1.0);
        let out = gemm::<f32>(a, b.view(), None);
        assert_biteq("NaN", &out[..3], &[f32::from_bits(0x7fff_ffff); 3]);
        assert_biteq("others", &out, &naive(a, b.view(), alpha));
    }

    #[test]
    fn depends_on_no_other_row_or_tile() {
        let (m, n, k) = (129, 67, 352);
        let mut rng = Rng::new(4);
        let (a, b) = (random(&mut rng, m, k, 0x50, 0.1), random(&mut rng, n, k, 0x50, 0.7));
        let bias = rng.normals(n, 100.0);
        check::assert_invariant(m, n, |i, j| {
            let (a, b) = (a.view().slice("a", i).unwrap(), b.view().slice("b", j.clone()).unwrap());
            gemm(a, b, Some(&bias[j]))
        });
    }

    #[test]
    fn rounds_once() {
        let k = 64;
        let mut rng = Rng::new(5);
        let (a, b, bias) =
            (random(&mut rng, 3, k, 0x40, 0.1), random(&mut rng, 9, k, 0x40, 0.7), rng.normals(9, 9.0));
        let (a, b) = (a.view(), b.view());
        let sum: Vec<f32> =
            gemm::<f32>(a, b, None).iter().enumerate().map(|(i, x)| x + bias[i % 9]).collect();
        assert_biteq("bias", &gemm(a, b, Some(&bias)), &sum);
        check::assert_rounds_once(&sum, &gemm(a, b, Some(&bias)), &gemm::<f16>(a, b, Some(&bias)));
    }

    #[test]
    fn strides_and_their_padding_change_nothing() {
        let (m, n, k) = (3, 33, 96);
        let mut rng = Rng::new(6);
        let (a, b) = (random(&mut rng, m, k, 0x50, 0.1), random(&mut rng, n, k, 0x50, 0.7));
        let wide = |x: Nvfp4Ref, stride: usize, row: &dyn Fn(usize) -> Vec<u8>| {
            (0..x.rows())
                .flat_map(|i| check::strided(&row(i), row(i).len(), stride, 0x7f))
                .collect::<Vec<u8>>()
        };
        let packed = wide(a.view(), k / 2 + 3, &|i| a.view().packed_row(i).to_vec());
        let scales = wide(a.view(), k / 16 + 1, &|i| a.view().scales_row(i).to_vec());
        let strided = Nvfp4Ref::new(
            "a",
            Rows::strided("packed", &packed, m, k / 2, k / 2 + 3).unwrap(),
            Rows::strided("scales", &scales, m, k / 16, k / 16 + 1).unwrap(),
            0.1,
        )
        .unwrap();
        let mut out = vec![5.0f32; m * (n + 2)];
        let plan = Plan::new(ARCH, Shape { n, k }).unwrap();
        let mut view = RowsMut::strided("out", &mut out, m, n, n + 2).unwrap();
        plan.reference(strided, b.view(), None, &mut view).unwrap();
        assert_biteq("out", &out, &check::strided(&gemm(a.view(), b.view(), None), n, n + 2, 5.0));
    }

    #[test]
    fn groups_are_as_if_alone() {
        let (n, k, sizes) = (40, 160, [0, 3, 1, 0, 5]);
        let mut rng = Rng::new(7);
        let mut experts = |rows: &[usize], scale: f32| -> Vec<Nvfp4> {
            let one = |(e, m): (usize, &usize)| random(&mut rng, *m, k, 0x50, scale * (e + 1) as f32);
            rows.iter().enumerate().map(one).collect()
        };
        let (a, b) = (experts(&sizes, 0.03), experts(&[n; 5], 0.7));
        let (a, b): (Vec<_>, Vec<_>) = a.iter().zip(&b).map(|(a, b)| (a.view(), b.view())).unzip();
        let mut out = vec![0.0f32; 9 * n];
        let plan = Plan::new(ARCH, Shape { n, k }).unwrap();
        plan.reference_grouped(&a, &b, &mut RowsMut::new("out", &mut out, 9, n).unwrap()).unwrap();
        let mut start = 0;
        for e in 0..5 {
            let end = start + sizes[e] * n;
            assert_biteq("group", &out[start..end], &gemm(a[e], b[e], None));
            start = end;
        }
    }
}

mod vs_paper {
    use super::*;

    #[test]
    fn is_near_the_exact_sum() {
        // The unit's exponent is that of the product of the scales, at least 2^-6 each; a step has four of these.
        for k in KS {
            let mut rng = Rng::new(100 + k as u64);
            let (a, b) = (random(&mut rng, 3, k, 0x7e, 0.013), random(&mut rng, 5, k, 0x7e, 0.37));
            let (a, b) = (a.view(), b.view());
            let mut want = Vec::new();
            for (i, j) in (0..3).flat_map(|i| (0..5).map(move |j| (i, j))) {
                let (mut x, mut y) = (vec![0.0f32; k], vec![0.0f32; k]);
                dequantize(a, i, &mut x);
                dequantize(b, j, &mut y);
                let products: Vec<f64> =
                    x.iter().zip(&y).map(|(x, y)| f64::from(*x) * f64::from(*y)).collect();
                let scale = |x: Nvfp4Ref, i: usize, g: usize| {
                    f64::from(vt_kernels::format::Ue4m3::from_bits(x.scales_row(i)[g]).to_f32())
                        .max(2f64.powi(-6))
                };
                let group = |g: usize| {
                    let sum: f64 = products[g * 16..][..16].iter().map(|p| p.abs()).sum();
                    sum.max(scale(a, i, g) * scale(b, j, g))
                };
                let mags: Vec<f64> = (0..k / 16).map(group).collect();
                let global = f64::from(a.global_scale()) * f64::from(b.global_scale());
                let bound = check::bound(&mags, k / 16, 4, 4, 35, 23);
                want.push((products.iter().sum::<f64>() * global, bound * global));
            }
            check::within(&format!("k {k}"), &gemm(a, b, None), &want).unwrap();
            let twice = naive(a, b, |sum, a, b| sum * (a * b) * b);
            assert!(check::within("control", &twice, &want).is_err(), "k {k}: a global scale applied twice");
        }
    }

    fn dequantize(x: Nvfp4Ref, i: usize, out: &mut [f32]) {
        let mut row = vec![half::bf16::ZERO; out.len()];
        x.unscaled_row(i, &mut row);
        out.iter_mut().zip(row).for_each(|(o, x)| *o = x.to_f32());
    }
}

mod errors {
    use super::*;

    #[test]
    fn name_the_argument_and_write_nothing() {
        let plan = Plan::new(ARCH, Shape { n: 2, k: 32 }).unwrap();
        let mut rng = Rng::new(1);
        let (good, wide, tall) = (
            random(&mut rng, 2, 32, 0x40, 1.0),
            random(&mut rng, 2, 48, 0x40, 1.0),
            random(&mut rng, 3, 32, 0x40, 1.0),
        );
        let (good, wide, tall) = (good.view(), wide.view(), tall.view());
        let mut buffer = [7.0f32; 4];
        let mut out = RowsMut::new("out", &mut buffer, 2, 2).unwrap();
        check::assert_refuses(plan.reference(wide, good, None, &mut out), "a");
        check::assert_refuses(plan.reference(good, tall, None, &mut out), "b");
        check::assert_refuses(plan.reference(good, good, Some(&[1.0]), &mut out), "bias");
        check::assert_refuses(plan.reference(tall, good, None, &mut out), "out");
        check::assert_refuses(plan.reference_grouped(&[good, good], &[good], &mut out), "a");
        check::assert_refuses(plan.reference_grouped(&[good], &[wide], &mut out), "b");
        check::assert_refuses(plan.reference_grouped(&[good, good], &[good, good], &mut out), "out");
        assert_eq!(buffer, [7.0; 4]);
        check::assert_refuses(Plan::new(ARCH, Shape { n: 1, k: 48 }), "k");
    }

    #[test]
    fn refuse_what_has_no_arm() {
        for arch in [Arch::Sm80, Arch::Sm89, Arch::Sm90a] {
            let refused = vt_kernels::gemm::nvfp4::supported(arch, &Shape { n: 1, k: 32 }).unwrap_err();
            assert!(refused.to_string().contains("no FP4 MMA"), "{refused}");
        }
    }
}

mod controls {
    use super::*;

    #[test]
    fn another_scale_or_nibble_order_is_seen() {
        let k = 256;
        let mut rng = Rng::new(8);
        let (a, b) = (random(&mut rng, 4, k, 0x50, 0.3), random(&mut rng, 32, k, 0x50, 0.7));
        let out = gemm::<f32>(a.view(), b.view(), None);
        assert!(biteq("out", &naive(a.view(), b.view(), alpha), &out).is_ok());
        let one_by_one = naive(a.view(), b.view(), |sum, a, b| sum * a * b);
        assert!(biteq("out", &one_by_one, &out).is_err(), "global scales applied one by one");
        let without = naive(a.view(), b.view(), |sum, _, b| sum * b);
        assert!(biteq("out", &without, &out).is_err(), "a global scale forgotten");
        let nibbles = |x: Nvfp4Ref| {
            let packed =
                (0..x.rows()).flat_map(|i| x.packed_row(i).iter().map(|p| p.rotate_left(4))).collect();
            let scales = (0..x.rows()).flat_map(|i| x.scales_row(i).to_vec()).collect();
            Nvfp4::new("x", x.rows(), x.cols(), packed, scales, x.global_scale()).unwrap()
        };
        let swapped = nibbles(b.view());
        assert!(
            biteq("out", &gemm::<f32>(a.view(), swapped.view(), None), &out).is_err(),
            "high nibble first"
        );
    }
}
