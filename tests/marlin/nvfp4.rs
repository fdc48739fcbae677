//! Tests of `marlin::nvfp4`.

use half::{bf16, f16};
use vt_kernels::format::{E2m1, Nvfp4, Nvfp4Ref, Ue4m3};
use vt_kernels::marlin::nvfp4::{Plan, Shape};
use vt_kernels::{Arch, Element, Rows, RowsMut};

use crate::gemm::check::{self, ARCHS};
use crate::gemm::nvfp4::random;
use crate::support::biteq::{assert_biteq, biteq};
use crate::support::strategies::Rng;

const KS: [usize; 8] = [16, 48, 496, 512, 528, 1040, 1856, 2688];

fn gemm<O: Element>(arch: Arch, a: &[bf16], b: Nvfp4Ref, bias: Option<&[f32]>) -> Vec<O> {
    let (m, n, k) = (a.len() / b.cols(), b.rows(), b.cols());
    let mut out = vec![O::from_f32(-7.0); m * n];
    let plan = Plan::new(arch, Shape { n, k }).unwrap();
    let mut view = RowsMut::new("out", &mut out, m, n).unwrap();
    plan.reference(Rows::new("a", a, m, k).unwrap(), b, bias, &mut view).unwrap();
    out
}

/// Row `i` without the global scale, decoded code by code.
fn weights(b: Nvfp4Ref, i: usize) -> Vec<bf16> {
    let (packed, scales) = (b.packed_row(i), b.scales_row(i));
    let weight = |k: usize| {
        let code = E2m1::from_bits(packed[k / 2] >> (4 * (k % 2)) & 15).to_f32();
        let exact = code * Ue4m3::from_bits(scales[k / 16]).to_f32();
        assert_eq!(bf16::from_f32(exact).to_f32(), exact);
        bf16::from_f32(exact)
    };
    (0..b.cols()).map(weight).collect()
}

/// The definition, output by output; `join` adds slice sums, `finish` applies the global scale.
fn naive(
    arch: Arch,
    a: &[bf16],
    b: Nvfp4Ref,
    join: fn(&[f32]) -> f32,
    finish: fn(f32, f32) -> f32,
) -> Vec<f32> {
    let weights: Vec<_> = (0..b.rows()).map(|j| weights(b, j)).collect();
    let dot = |a, w: &Vec<bf16>| finish(join(&check::bf16_sums(arch, a, w)), b.global_scale());
    check::stored(a.chunks(b.cols()).flat_map(|a| weights.iter().map(move |w| dot(a, w))).collect())
}

fn once(sum: f32, global: f32) -> f32 {
    sum * global
}

mod vs_reference {
    use super::*;

    #[test]
    fn equals_the_naive_fold() {
        for (arch, k) in ARCHS.into_iter().flat_map(|arch| KS.map(|k| (arch, k))) {
            let mut rng = Rng::new(k as u64);
            let (a, b) = (rng.normals_bf16(2 * k, 1.0), random(&mut rng, 35, k, 0x7e, 0.013));
            let want = naive(arch, &a, b.view(), check::ascending, once);
            assert_biteq(&format!("{arch} k {k}"), &gemm(arch, &a, b.view(), None), &want);
        }
    }

    #[test]
    fn equals_the_naive_fold_on_any_bits() {
        let mut rng = Rng::new(11);
        for k in [16, 32] {
            let a: Vec<bf16> = (0..200 * k).map(|_| bf16::from_bits(rng.bits() as u16)).collect();
            let b = random(&mut rng, 9, k, 0x7e, 0.37);
            let want = naive(Arch::Sm121a, &a, b.view(), check::ascending, once);
            assert!(want.iter().any(|x| x.is_nan()) && want.iter().any(|x| x.is_finite()));
            assert_biteq("out", &gemm(Arch::Sm121a, &a, b.view(), None), &want);
        }
    }

    #[test]
    fn depends_on_no_other_row_or_tile() {
        let (m, n, k) = (129, 67, 592);
        let mut rng = Rng::new(4);
        let (a, b) = (rng.normals_bf16(m * k, 1.0), random(&mut rng, n, k, 0x50, 0.7));
        let bias = rng.normals(n, 100.0);
        check::assert_invariant(m, n, |i, j| {
            let b = b.view().slice("b", j.clone()).unwrap();
            gemm(Arch::Sm90a, &a[i.start * k..i.end * k], b, Some(&bias[j]))
        });
    }

    #[test]
    fn rounds_once() {
        let k = 64;
        let mut rng = Rng::new(5);
        let (a, b, bias) =
            (rng.normals_bf16(3 * k, 1.0), random(&mut rng, 9, k, 0x40, 0.7), rng.normals(9, 9.0));
        let run = |bias| gemm::<f32>(Arch::Sm90a, &a, b.view(), bias);
        let sum: Vec<f32> = run(None).iter().enumerate().map(|(i, x)| x + bias[i % 9]).collect();
        let bias = Some(&bias[..]);
        assert_biteq("bias", &run(bias), &sum);
        let f16s: Vec<f16> = gemm(Arch::Sm90a, &a, b.view(), bias);
        check::assert_rounds_once(&sum, &gemm(Arch::Sm90a, &a, b.view(), bias), &f16s);
    }

    #[test]
    fn strides_and_their_padding_change_nothing() {
        let (m, n, k) = (3, 33, 48);
        let mut rng = Rng::new(6);
        let (a, b) = (rng.normals_bf16(m * k, 1.0), random(&mut rng, n, k, 0x50, 0.7));
        let wide = check::strided(&a, k, k + 3, bf16::NAN);
        let mut out = vec![5.0f32; m * (n + 2)];
        let plan = Plan::new(Arch::Sm121a, Shape { n, k }).unwrap();
        let mut view = RowsMut::strided("out", &mut out, m, n, n + 2).unwrap();
        plan.reference(Rows::strided("a", &wide, m, k, k + 3).unwrap(), b.view(), None, &mut view).unwrap();
        let contiguous = gemm(Arch::Sm121a, &a, b.view(), None);
        assert_biteq("out", &out, &check::strided(&contiguous, n, n + 2, 5.0));
    }

    #[test]
    fn groups_are_as_if_alone() {
        let (n, k, offsets) = (40, 112, [0u32, 0, 3, 4, 4, 9]);
        let mut rng = Rng::new(7);
        let a = rng.normals_bf16(9 * k, 1.0);
        // A global scale of its own for each expert.
        let b: Vec<_> = (0..5).map(|e| random(&mut rng, n, k, 0x50, 0.1 + e as f32 / 3.0)).collect();
        let views: Vec<_> = b.iter().map(Nvfp4::view).collect();
        let mut out = vec![0.0f32; 9 * n];
        let plan = Plan::new(Arch::Sm90a, Shape { n, k }).unwrap();
        let mut view = RowsMut::new("out", &mut out, 9, n).unwrap();
        plan.reference_grouped(Rows::new("a", &a, 9, k).unwrap(), &offsets, &views, &mut view).unwrap();
        for e in 0..5 {
            let (i, j) = (offsets[e] as usize, offsets[e + 1] as usize);
            let alone = gemm(Arch::Sm90a, &a[i * k..j * k], views[e], None);
            assert_biteq("group", &out[i * n..j * n], &alone);
        }
    }
}

mod vs_paper {
    use super::*;

    #[test]
    fn is_near_the_exact_sum() {
        for k in KS {
            let mut rng = Rng::new(100 + k as u64);
            let (a, b) = (rng.normals_bf16(3 * k, 1.0), random(&mut rng, 5, k, 0x7e, 0.37));
            let global = f64::from(b.global_scale());
            let mut want = Vec::new();
            for (a, j) in a.chunks(k).flat_map(|a| (0..5).map(move |j| (a, j))) {
                let products: Vec<f64> =
                    a.iter().zip(weights(b.view(), j)).map(|(a, w)| a.to_f64() * w.to_f64()).collect();
                let mags: Vec<f64> = products.iter().map(|p| p.abs()).collect();
                want.push((products.iter().sum::<f64>() * global, check::bf16_bound(&mags) * global));
            }
            check::within(&format!("k {k}"), &gemm(Arch::Sm90a, &a, b.view(), None), &want).unwrap();
            let twice = naive(Arch::Sm90a, &a, b.view(), check::ascending, |sum, s| sum * s * s);
            assert!(
                check::within("control", &twice, &want).is_err(),
                "k {k}: the global scale applied twice"
            );
        }
    }
}

mod errors {
    use super::*;

    #[test]
    fn name_the_argument_and_write_nothing() {
        let plan = Plan::new(Arch::Sm90a, Shape { n: 2, k: 32 }).unwrap();
        let mut rng = Rng::new(1);
        let (good, wide) = (random(&mut rng, 2, 32, 0x40, 1.0), random(&mut rng, 2, 48, 0x40, 1.0));
        let (good, wide) = (good.view(), wide.view());
        let x = [bf16::ONE; 96];
        let rows = |m, k| Rows::new("x", &x[..m * k], m, k).unwrap();
        let mut buffer = [7.0f32; 4];
        let mut out = RowsMut::new("out", &mut buffer, 2, 2).unwrap();
        check::assert_refuses(plan.reference(rows(2, 31), good, None, &mut out), "a");
        check::assert_refuses(plan.reference(rows(2, 32), wide, None, &mut out), "b");
        check::assert_refuses(plan.reference(rows(2, 32), good, Some(&[1.0]), &mut out), "bias");
        check::assert_refuses(plan.reference(rows(3, 32), good, None, &mut out), "out");
        check::assert_refuses(plan.reference_grouped(rows(2, 32), &[0, 2], &[wide], &mut out), "b");
        check::assert_refuses(plan.reference_grouped(rows(2, 32), &[0, 1], &[good], &mut out), "offsets");
        assert_eq!(buffer, [7.0; 4]);
        check::assert_refuses(Plan::new(Arch::Sm90a, Shape { n: 1, k: 24 }), "k");
        assert!(Plan::new(Arch::Sm80, Shape { n: 1, k: 16 }).is_err());
    }
}

mod controls {
    use super::*;

    #[test]
    fn another_order_or_scale_is_seen() {
        let k = 1536;
        let mut rng = Rng::new(8);
        let (a, b) = (rng.normals_bf16(2 * k, 1.0), random(&mut rng, 48, k, 0x40, 0.37));
        let out = gemm::<f32>(Arch::Sm90a, &a, b.view(), None);
        let differs =
            |join, finish| biteq("out", &naive(Arch::Sm90a, &a, b.view(), join, finish), &out).is_err();
        assert!(!differs(check::ascending, once));
        assert!(differs(|s| s[2] + s[1] + s[0], once), "slices in descending order");
        assert!(differs(|s| s[0] + s[2], once), "a slice dropped");
        assert!(
            differs(check::ascending, |sum, s| sum * bf16::from_f32(s).to_f32()),
            "a scale rounded to bf16"
        );
        assert!(differs(check::ascending, |sum, _| sum), "the global scale forgotten");
    }
}
