//! `quant/nvfp4`.

use half::bf16;
use proptest::prelude::*;
use safetensors::SafeTensors;
use vt_kernels::format::Nvfp4Ref;
use vt_kernels::layout::SwizzledScales128x4;
use vt_kernels::quant::nvfp4::{MIN_GLOBAL_SCALE, Plan, Shape};
use vt_kernels::{Arch, Element, Result, Rows, RowsMut};

use crate::support::biteq::{Bits, assert_biteq, biteq};
use crate::support::oracle::oracle_dir;
use crate::support::padded::{Padded, assert_refuses};
use crate::support::strategies::Rng;

/// Packed codes and scales.
fn quantise<T: Element + Bits>(x: &Padded<T>, global_scale: f32) -> Result<(Vec<u8>, Vec<u8>)> {
    let (rows, cols) = (x.view().rows(), x.view().cols());
    let mut packed = Padded::<u8>::new(rows, cols / 2, 3, 0x55, || 0x55);
    let mut scales = Padded::<u8>::new(rows, cols / 16, 1, 0x55, || 0x55);
    let plan = Plan::new(Arch::Sm121a, Shape { cols })?;
    plan.reference(x.view(), global_scale, &mut packed.view_mut(), &mut scales.view_mut())?;
    packed.assert_padding();
    scales.assert_padding();
    Ok((packed.values(), scales.values()))
}

/// The nearest of the values 0, 0.5, 1, 1.5, 2, 3, 4, 6 by search, ties to the even code; NaN gives 6.
fn e2m1(x: f32) -> u8 {
    const VALUES: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    if x.is_nan() {
        return 7;
    }
    let magnitude = f64::from(x.abs()).min(6.0);
    let distance = |code: &u8| (VALUES[usize::from(*code)] - magnitude).abs();
    let best = (0..8).min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2)))).unwrap();
    best | u8::from(x.is_sign_negative()) << 3
}

/// The nearest ue4m3 by search.
fn ue4m3(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let distance =
        |code: &u8| (f64::from(float8::F8E4M3::from_bits(*code).to_f32()) - f64::from(x).min(448.0)).abs();
    (0..0x7f).min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2)))).unwrap()
}

/// ModelOpt's definition of a block, in f32.
fn block(x: &[f32], global_scale: f32) -> (Vec<u8>, u8) {
    let nan = x.iter().any(|x| x.is_nan());
    let amax = if nan { f32::NAN } else { x.iter().fold(0.0f32, |m, x| m.max(x.abs())) };
    let wanted = amax / (6.0 * global_scale);
    let scale = ue4m3(if wanted < 2f32.powi(-9) { 2f32.powi(-9) } else { wanted });
    let step = float8::F8E4M3::from_bits(scale).to_f32() * global_scale;
    let codes = x.chunks(2).map(|pair| e2m1(pair[0] / step) | e2m1(pair[1] / step) << 4);
    (codes.collect(), scale)
}

mod vs_modelopt {
    use super::*;

    /// The calibrated maximum of the oracle's layer, a bf16; the file has codes and scales alone.
    const AMAX: f32 = 6.21875;

    fn check(global_scale: f32) -> Result<(), String> {
        let Some(dir) = oracle_dir("nvfp4 vs_modelopt") else { return Ok(()) };
        let bytes = std::fs::read(dir.join("ops.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let x: Vec<bf16> = bytemuck::pod_collect_to_vec(file.tensor("nvfp4.x").unwrap().data());
        let mut values = x.into_iter();
        let x = Padded::<bf16>::new(5, 256, 1, bf16::NAN, || values.next().unwrap());
        let (codes, scales) = quantise(&x, global_scale).unwrap();
        biteq("scales", &scales, file.tensor("nvfp4.block_scales").unwrap().data())?;
        biteq("codes", &codes, file.tensor("nvfp4.codes").unwrap().data())
    }

    #[test]
    fn codes_and_scales_are_equal_bytes() {
        check(AMAX / (6.0 * 448.0)).unwrap();
    }

    mod controls {
        use super::*;

        #[test]
        fn another_scale_is_seen() {
            if oracle_dir("nvfp4 controls").is_some() {
                assert!(check(AMAX / 448.0).is_err());
                assert!(check(AMAX / (6.0 * 448.0) * (AMAX / (6.0 * 448.0))).is_err());
            }
        }
    }
}

mod vs_reference {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn equals_the_definition(seed: u64, rows in 0usize..4, blocks in 0usize..6, pad in 0usize..4, global_scale in 1e-4f32..10.0, extreme: bool) {
            let mut rng = Rng::new(seed);
            let cols = blocks * 16;
            let x = if extreme { Padded::<f32>::extreme(&mut rng, rows, cols, pad) } else { Padded::normal(&mut rng, rows, cols, pad, 10.0) };
            let (codes, scales) = quantise(&x, global_scale).unwrap();
            let want: Vec<_> = x.values().chunks(16).map(|x| block(x, global_scale)).collect();
            assert_biteq("scales", &scales, &want.iter().map(|(_, s)| *s).collect::<Vec<_>>());
            assert_biteq("codes", &codes, &want.iter().flat_map(|(c, _)| c.clone()).collect::<Vec<_>>());
        }

        /// Scales in tiles of 128 × 4 are the row-major ones moved, padding zeroed.
        #[test]
        fn swizzled_scales_are_the_same(seed: u64, rows in prop::sample::select(vec![0usize, 1, 5, 32, 127, 128, 129]), blocks in 1usize..10) {
            let cols = blocks * 16;
            let x = Padded::<bf16>::normal(&mut Rng::new(seed), rows, cols, 1, 1.0);
            let (codes, scales) = quantise(&x, 0.01).unwrap();
            let layout = SwizzledScales128x4::new(rows, blocks).unwrap();
            let (mut packed, mut swizzled) = (vec![0x55; rows * cols / 2], vec![0x7f; layout.len()]);
            let plan = Plan::new(Arch::Sm121a, Shape { cols }).unwrap();
            let mut view = RowsMut::new("packed", &mut packed, rows, cols / 2).unwrap();
            plan.reference_swizzled(x.view(), 0.01, &mut view, &mut swizzled).unwrap();
            assert_biteq("codes", &packed, &codes);
            let mut want = vec![0; layout.len()];
            layout.swizzle(&scales, &mut want).unwrap();
            assert_biteq("scales", &swizzled, &want);
        }
    }

    #[test]
    fn zero_blocks_subnormal_scales_and_saturation() {
        let quantise = |value: f32, global_scale| {
            let (codes, scales) =
                quantise(&Padded::<f32>::new(1, 16, 0, 0.0, || value), global_scale).unwrap();
            (codes[0], scales[0])
        };
        assert_eq!(quantise(0.0, 1.0), (0x00, 0x01));
        assert_eq!(quantise(6.0 * 2f32.powi(-8), 1.0), (0x77, 0x02));
        assert_eq!(quantise(1e-30, 1.0), (0x00, 0x01));
        assert_eq!(quantise(6.0 * 448.0, 1.0), (0x77, 0x7e));
        assert_eq!(quantise(1e9, 1.0), (0x77, 0x7e));
        assert_eq!(quantise(-f32::INFINITY, 1.0), (0xff, 0x7e));
        assert_eq!(quantise(f32::NAN, 1.0), (0x77, 0x7f));
    }
}

mod vs_paper {
    use super::*;

    /// A value within the calibrated range is off by half a step of its code at most: a sixth of the block's maximum, and
    /// the scale's own rounding of 2^-4.
    #[test]
    fn dequantised_values_are_near() {
        let mut rng = Rng::new(9);
        let x = Padded::<f32>::normal(&mut rng, 4, 256, 0, 1.0);
        let amax = x.values().iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let global_scale = amax / (6.0 * 448.0);
        let (codes, scales) = quantise(&x, global_scale).unwrap();
        let (packed, scales) =
            (Rows::new("p", &codes, 4, 128).unwrap(), Rows::new("s", &scales, 4, 16).unwrap());
        let tensor = Nvfp4Ref::new("x", packed, scales, global_scale).unwrap();
        for i in 0..4 {
            let mut row = [0.0; 256];
            tensor.dequantize_row(i, &mut row);
            for (x, got) in x.row(i).chunks(16).zip(row.chunks(16)) {
                let amax = x.iter().fold(0.0f32, |m, x| m.max(x.abs()));
                assert!(x.iter().zip(got).all(|(x, got)| (x - got).abs() <= amax * (1.0 / 6.0 + 1.0 / 16.0)));
            }
        }
    }
}

#[test]
fn errors_name_the_argument() {
    assert_refuses(Plan::new(Arch::Sm121a, Shape { cols: 24 }), "cols");
    assert!(Plan::new(Arch::Sm80, Shape { cols: 16 }).is_err());
    let x = Padded::<f32>::normal(&mut Rng::new(1), 2, 16, 0, 1.0);
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, MIN_GLOBAL_SCALE / 2.0] {
        assert_refuses(quantise(&x, scale), "global_scale");
    }
    quantise(&x, MIN_GLOBAL_SCALE).unwrap();
    let plan = Plan::new(Arch::Sm121a, Shape { cols: 16 }).unwrap();
    let (mut packed, mut scales) = ([9u8; 16], [9u8; 512]);
    let mut call = |rows, bytes: usize, n: usize| {
        let mut packed = RowsMut::new("packed", &mut packed[..rows * bytes], rows, bytes).unwrap();
        let mut scales = RowsMut::new("scales", &mut scales[..2 * n], 2, n).unwrap();
        plan.reference(x.view(), 1.0, &mut packed, &mut scales)
    };
    assert_refuses(call(2, 7, 1), "packed");
    assert_refuses(call(1, 8, 1), "packed");
    assert_refuses(call(2, 8, 2), "scales");
    let mut view = RowsMut::new("packed", &mut packed, 2, 8).unwrap();
    assert_refuses(plan.reference_swizzled(x.view(), 1.0, &mut view, &mut scales[..511]), "scales");
    assert_eq!((packed, scales), ([9; 16], [9; 512]));
}
