//! `quant/fp8`.

use half::bf16;
use proptest::prelude::*;
use safetensors::SafeTensors;
use vt_kernels::format::E4m3;
use vt_kernels::quant::fp8::{MIN_SCALE, Plan, Scale, Shape};
use vt_kernels::{Arch, Element, Result, RowsMut};

use crate::support::biteq::{Bits, assert_biteq, biteq};
use crate::support::oracle::oracle_dir;
use crate::support::padded::{Padded, assert_refuses};
use crate::support::strategies::Rng;

/// Codes, after checking that nothing is written between rows.
fn quantise<T: Element + Bits>(x: &Padded<T>, scale: Scale<'_>) -> Result<Vec<u8>> {
    let (rows, cols) = (x.view().rows(), x.view().cols());
    let poison = E4m3::from_bits(0x55);
    let mut out = vec![poison; rows * (cols + 2)];
    let plan = Plan::new(Arch::Sm90a, Shape { cols })?;
    plan.reference(x.view(), scale, &mut RowsMut::strided("out", &mut out, rows, cols, cols + 2)?)?;
    let (mut codes, mut padding) = (Vec::new(), Vec::new());
    for (at, code) in out.iter().enumerate() {
        if at % (cols + 2) < cols { codes.push(code.to_bits()) } else { padding.push(code.to_bits()) }
    }
    assert!(padding.iter().all(|byte| *byte == 0x55));
    Ok(codes)
}

/// The nearest code by search: ties to the even code, saturation, NaN to 0x7f.
fn nearest(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let magnitude = f64::from(x.abs()).min(448.0);
    let distance = |code: &u8| (f64::from(float8::F8E4M3::from_bits(*code).to_f32()) - magnitude).abs();
    let best =
        (0..0x7f).min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2)))).unwrap();
    best | u8::from(x.is_sign_negative()) << 7
}

mod vs_modelopt {
    use super::*;

    /// The calibrated maximum of the oracle's layer; the file has the codes alone, and they leave no other scale.
    const AMAX: f32 = 6.125;

    fn check(scale: f32) -> Result<(), String> {
        let Some(dir) = oracle_dir("fp8 vs_modelopt") else { return Ok(()) };
        let bytes = std::fs::read(dir.join("ops.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let x: Vec<bf16> = bytemuck::pod_collect_to_vec(file.tensor("fp8.x").unwrap().data());
        let mut values = x.into_iter();
        let x = Padded::<bf16>::new(5, 256, 1, bf16::NAN, || values.next().unwrap());
        let got = quantise(&x, Scale::PerTensor(scale)).unwrap();
        biteq("codes", &got, file.tensor("fp8.codes").unwrap().data())
    }

    #[test]
    fn codes_are_equal_bytes() {
        check(AMAX / 448.0).unwrap();
    }

    mod controls {
        use super::*;

        #[test]
        fn a_scale_applied_twice_is_seen() {
            if oracle_dir("fp8 controls").is_some() {
                assert!(check(AMAX / 448.0 * (AMAX / 448.0)).is_err());
            }
        }
    }
}

mod vs_paper {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn static_scale(seed: u64, rows in 0usize..4, cols in 0usize..70, pad in 0usize..4, scale in 1e-3f32..10.0, extreme: bool) {
            let mut rng = Rng::new(seed);
            let x = if extreme { Padded::<f32>::extreme(&mut rng, rows, cols, pad) } else { Padded::normal(&mut rng, rows, cols, pad, 100.0) };
            let want: Vec<u8> = x.values().iter().map(|x| nearest(x / scale)).collect();
            assert_biteq("codes", &quantise(&x, Scale::PerTensor(scale)).unwrap(), &want);
        }

        #[test]
        fn a_scale_for_each_row(seed: u64, rows in 0usize..4, cols in 1usize..70, pad in 0usize..4) {
            let x = Padded::<bf16>::normal(&mut Rng::new(seed), rows, cols, pad, 3.0);
            let mut scales = vec![f32::NAN; rows];
            let codes = quantise(&x, Scale::PerRow(&mut scales)).unwrap();
            for i in 0..rows {
                let amax = x.row(i).iter().map(|x| x.to_f32().abs()).fold(0.0, f32::max);
                assert_biteq("scale", &[scales[i]], &[(amax / 448.0).max(MIN_SCALE)]);
                let want: Vec<u8> = x.row(i).iter().map(|x| nearest(x.to_f32() / scales[i])).collect();
                assert_biteq("codes", &codes[i * cols..(i + 1) * cols], &want);
                let mut own = [0.0];
                assert_biteq("alone", &quantise(&x.slice(i..i + 1), Scale::PerRow(&mut own)).unwrap(), &want);
            }
        }
    }

    #[test]
    fn rows_of_zeros_nan_and_infinity() {
        let mut values = [0.0, -0.0, 1.0, f32::NAN, 1.0, f32::INFINITY].into_iter();
        let x = Padded::<f32>::new(3, 2, 0, 0.0, || values.next().unwrap());
        let mut scales = [0.0; 3];
        let codes = quantise(&x, Scale::PerRow(&mut scales)).unwrap();
        assert_biteq("scales", &scales, &[MIN_SCALE, f32::from_bits(0x7fff_ffff), f32::INFINITY]);
        assert_eq!(codes, [0x00, 0x80, 0x7f, 0x7f, 0x00, 0x7f]);
    }
}

#[test]
fn errors_name_the_argument() {
    let x = Padded::<f32>::normal(&mut Rng::new(1), 2, 4, 0, 1.0);
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert_refuses(quantise(&x, Scale::PerTensor(scale)), "scale");
    }
    assert_refuses(quantise(&x, Scale::PerRow(&mut [0.0])), "scale");
    let plan = Plan::new(Arch::Sm90a, Shape { cols: 3 }).unwrap();
    let mut out = [E4m3::from_bits(9); 8];
    let mut view = RowsMut::new("out", &mut out, 2, 4).unwrap();
    assert_refuses(plan.reference(x.view(), Scale::PerTensor(1.0), &mut view), "x");
    let plan = Plan::new(Arch::Sm90a, Shape { cols: 4 }).unwrap();
    let mut view = RowsMut::new("out", &mut out[..4], 1, 4).unwrap();
    assert_refuses(plan.reference(x.view(), Scale::PerTensor(1.0), &mut view), "out");
    assert!(Plan::new(Arch::Sm89, Shape { cols: 4 }).is_err());
    assert_eq!(out, [E4m3::from_bits(9); 8]);
}
