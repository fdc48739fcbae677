//! Tests of `marlin::fp8`.

use half::{bf16, f16};
use vt_kernels::format::E4m3;
use vt_kernels::gemm::fp8::Scale;
use vt_kernels::marlin::fp8::{Plan, Shape};
use vt_kernels::{Arch, Element, Rows, RowsMut};

use crate::gemm::check::{self, ARCHS};
use crate::support::biteq::{assert_biteq, biteq};
use crate::support::strategies::Rng;

const KS: [usize; 8] = [16, 48, 496, 512, 528, 1040, 1856, 2688];

fn gemm<O: Element>(
    arch: Arch,
    k: usize,
    a: &[bf16],
    b: &[E4m3],
    scale: Scale,
    bias: Option<&[f32]>,
) -> Vec<O> {
    let (m, n) = (a.len() / k, b.len() / k);
    let mut out = vec![O::from_f32(-7.0); m * n];
    let plan = Plan::new(arch, Shape { n, k }).unwrap();
    let (a, b) = (Rows::new("a", a, m, k).unwrap(), Rows::new("b", b, n, k).unwrap());
    plan.reference(a, b, scale, bias, &mut RowsMut::new("out", &mut out, m, n).unwrap()).unwrap();
    out
}

fn widened(b: &[E4m3]) -> Vec<bf16> {
    b.iter().map(|b| bf16::from_f32(b.to_f32())).collect()
}

/// The definition, output by output; `join` adds slice sums, `finish` applies the scale of `b`'s row.
fn naive(
    arch: Arch,
    (a, b): (&[bf16], &[E4m3]),
    scales: &[f32],
    join: fn(&[f32]) -> f32,
    finish: fn(f32, f32) -> f32,
) -> Vec<f32> {
    let k = b.len() / scales.len();
    let weights = widened(b);
    let mut out = Vec::new();
    for a in a.chunks(k) {
        for (w, &scale) in weights.chunks(k).zip(scales) {
            out.push(finish(join(&check::bf16_sums(arch, a, w)), scale));
        }
    }
    check::stored(out)
}

fn once(sum: f32, scale: f32) -> f32 {
    sum * scale
}

fn codes(rng: &mut Rng, n: usize) -> Vec<E4m3> {
    (0..n).map(|_| E4m3::from_f32(rng.normal(4.0))).collect()
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
            let (a, b) = (rng.normals_bf16(2 * k, 1.0), codes(&mut rng, 35 * k));
            let scales = scales(&mut rng, 35);
            let want = naive(arch, (&a, &b), &scales, check::ascending, once);
            let name = format!("{arch} k {k}");
            assert_biteq(&name, &gemm(arch, k, &a, &b, Scale::PerRow(&scales), None), &want);
            let want = naive(arch, (&a, &b), &[0.3; 35], check::ascending, once);
            assert_biteq(&name, &gemm(arch, k, &a, &b, Scale::PerTensor(0.3), None), &want);
        }
    }

    #[test]
    fn equals_the_naive_fold_on_any_bits() {
        let (mut rng, k) = (Rng::new(11), 16);
        let a: Vec<bf16> = (0..200 * k).map(|_| bf16::from_bits(rng.bits() as u16)).collect();
        // Every code, both NaN among them.
        let b: Vec<E4m3> = (0..=255).map(E4m3::from_bits).collect();
        let want = naive(Arch::Sm121a, (&a, &b), &[0.3; 16], check::ascending, once);
        assert!(want.iter().any(|x| x.is_nan()) && want.iter().any(|x| x.is_finite()));
        assert_biteq("out", &gemm(Arch::Sm121a, k, &a, &b, Scale::PerTensor(0.3), None), &want);
    }

    #[test]
    fn depends_on_no_other_row_or_tile() {
        let (m, n, k) = (129, 67, 592);
        let mut rng = Rng::new(4);
        let (a, b) = (rng.normals_bf16(m * k, 1.0), codes(&mut rng, n * k));
        let (scales, bias) = (scales(&mut rng, n), rng.normals(n, 9.0));
        check::assert_invariant(m, n, |i, j| {
            let (a, b) = (&a[i.start * k..i.end * k], &b[j.start * k..j.end * k]);
            gemm(Arch::Sm90a, k, a, b, Scale::PerRow(&scales[j.clone()]), Some(&bias[j]))
        });
    }

    #[test]
    fn rounds_once() {
        let (k, scale) = (64, Scale::PerTensor(0.7));
        let mut rng = Rng::new(5);
        let (a, b, bias) = (rng.normals_bf16(3 * k, 1.0), codes(&mut rng, 9 * k), rng.normals(9, 9.0));
        let run = |bias| gemm::<f32>(Arch::Sm90a, k, &a, &b, scale, bias);
        let sum: Vec<f32> = run(None).iter().enumerate().map(|(i, x)| x + bias[i % 9]).collect();
        let bias = Some(&bias[..]);
        assert_biteq("bias", &run(bias), &sum);
        let f16s: Vec<f16> = gemm(Arch::Sm90a, k, &a, &b, scale, bias);
        check::assert_rounds_once(&sum, &gemm(Arch::Sm90a, k, &a, &b, scale, bias), &f16s);
    }

    #[test]
    fn strides_and_their_padding_change_nothing() {
        let (m, n, k, scale) = (3, 33, 48, Scale::PerTensor(0.7));
        let mut rng = Rng::new(6);
        let (a, b) = (rng.normals_bf16(m * k, 1.0), codes(&mut rng, n * k));
        let wide_a = check::strided(&a, k, k + 3, bf16::NAN);
        let wide_b = check::strided(&b, k, k + 1, E4m3::from_bits(0x7f));
        let mut out = vec![5.0f32; m * (n + 2)];
        let plan = Plan::new(Arch::Sm121a, Shape { n, k }).unwrap();
        plan.reference(
            Rows::strided("a", &wide_a, m, k, k + 3).unwrap(),
            Rows::strided("b", &wide_b, n, k, k + 1).unwrap(),
            scale,
            None,
            &mut RowsMut::strided("out", &mut out, m, n, n + 2).unwrap(),
        )
        .unwrap();
        let contiguous = gemm(Arch::Sm121a, k, &a, &b, scale, None);
        assert_biteq("out", &out, &check::strided(&contiguous, n, n + 2, 5.0));
    }

    #[test]
    fn groups_are_as_if_alone() {
        let (n, k, offsets) = (40, 112, [0u32, 0, 3, 4, 4, 9]);
        let mut rng = Rng::new(7);
        let (a, b) = (rng.normals_bf16(9 * k, 1.0), codes(&mut rng, 5 * n * k));
        let scales = scales(&mut rng, 5);
        let experts: Vec<_> = b.chunks(n * k).map(|b| Rows::new("b", b, n, k).unwrap()).collect();
        let mut out = vec![0.0f32; 9 * n];
        let plan = Plan::new(Arch::Sm90a, Shape { n, k }).unwrap();
        let mut view = RowsMut::new("out", &mut out, 9, n).unwrap();
        let rows = Rows::new("a", &a, 9, k).unwrap();
        plan.reference_grouped(rows, &offsets, &experts, &scales, &mut view).unwrap();
        for e in 0..5 {
            let (i, j) = (offsets[e] as usize, offsets[e + 1] as usize);
            let (a, b) = (&a[i * k..j * k], &b[e * n * k..][..n * k]);
            let alone = gemm(Arch::Sm90a, k, a, b, Scale::PerTensor(scales[e]), None);
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
            let (a, b) = (rng.normals_bf16(3 * k, 1.0), codes(&mut rng, 5 * k));
            let scale = f64::from(0.37f32);
            let mut want = Vec::new();
            for (a, b) in a.chunks(k).flat_map(|a| b.chunks(k).map(move |b| (a, b))) {
                let products: Vec<f64> =
                    a.iter().zip(b).map(|(a, b)| a.to_f64() * f64::from(b.to_f32())).collect();
                let mags: Vec<f64> = products.iter().map(|p| p.abs()).collect();
                want.push((products.iter().sum::<f64>() * scale, check::bf16_bound(&mags) * scale));
            }
            let got = gemm(Arch::Sm90a, k, &a, &b, Scale::PerTensor(0.37), None);
            check::within(&format!("k {k}"), &got, &want).unwrap();
            let twice = naive(Arch::Sm90a, (&a, &b), &[0.37; 5], check::ascending, |sum, s| sum * s * s);
            assert!(check::within("control", &twice, &want).is_err(), "k {k}: the scale applied twice");
        }
    }
}

mod errors {
    use super::*;

    #[test]
    fn name_the_argument_and_write_nothing() {
        let plan = Plan::new(Arch::Sm90a, Shape { n: 2, k: 16 }).unwrap();
        let (x, w) = ([bf16::ONE; 64], [E4m3::from_f32(1.0); 64]);
        let a = |m, k| Rows::new("x", &x[..m * k], m, k).unwrap();
        let b = |n, k| Rows::new("w", &w[..n * k], n, k).unwrap();
        let one = Scale::PerTensor(1.0);
        let mut buffer = [7.0f32; 4];
        let mut out = RowsMut::new("out", &mut buffer, 2, 2).unwrap();
        check::assert_refuses(plan.reference(a(2, 17), b(2, 16), one, None, &mut out), "a");
        check::assert_refuses(plan.reference(a(2, 16), b(3, 16), one, None, &mut out), "b");
        let short = Scale::PerRow(&[1.0]);
        check::assert_refuses(plan.reference(a(2, 16), b(2, 16), short, None, &mut out), "b_scale");
        check::assert_refuses(plan.reference(a(2, 16), b(2, 16), one, Some(&[1.0]), &mut out), "bias");
        check::assert_refuses(plan.reference(a(1, 16), b(2, 16), one, None, &mut out), "out");
        let experts = [b(2, 16)];
        check::assert_refuses(plan.reference_grouped(a(2, 16), &[0, 2], &experts, &[], &mut out), "b_scales");
        check::assert_refuses(
            plan.reference_grouped(a(2, 16), &[0, 1], &experts, &[1.0], &mut out),
            "offsets",
        );
        assert_eq!(buffer, [7.0; 4]);
        check::assert_refuses(Plan::new(Arch::Sm90a, Shape { n: 1, k: 24 }), "k");
        assert!(Plan::new(Arch::Sm89, Shape { n: 1, k: 16 }).is_err());
    }
}

mod controls {
    use super::*;

    #[test]
    fn another_order_or_scale_is_seen() {
        let k = 1536;
        let mut rng = Rng::new(8);
        let (a, b) = (rng.normals_bf16(2 * k, 1.0), codes(&mut rng, 48 * k));
        let scales = scales(&mut rng, 48);
        let out = gemm::<f32>(Arch::Sm90a, k, &a, &b, Scale::PerRow(&scales), None);
        let differs =
            |join, finish| biteq("out", &naive(Arch::Sm90a, (&a, &b), &scales, join, finish), &out).is_err();
        assert!(!differs(check::ascending, once));
        assert!(differs(|s| s[2] + s[1] + s[0], once), "slices in descending order");
        assert!(differs(|s| s[0] + s[2], once), "a slice dropped");
        assert!(
            differs(check::ascending, |sum, s| sum * bf16::from_f32(s).to_f32()),
            "a scale rounded to bf16"
        );
        assert!(differs(check::ascending, |sum, s| sum * s * s), "a scale applied twice");
    }
}
