//! Every code of every format, and every value at which rounding turns.

use float8::{F8E4M3, F8E5M2};
use vt_kernels::format::{E2m1, E2m3, E3m2, E4m3, E5m2, Ue4m3, Ue8m0, e2m1x2};

/// A format's rounding against a search over its values. `values[code]` for codes of positive sign, ascending.
fn check_rounding(name: &str, values: &[f64], encode: impl Fn(f32) -> u8, sign: Option<u8>) {
    let nearest = |x: f64| {
        let distance = |code: &usize| (values[*code] - x).abs();
        let order = |a: &usize, b: &usize| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2)));
        (0..values.len()).min_by(order).unwrap() as u8
    };
    let largest = values[values.len() - 1];
    let mut points: Vec<f32> = vec![0.0, f32::MIN_POSITIVE, f32::from_bits(1), 1e30, f32::MAX, f32::INFINITY];
    for pair in values.windows(2) {
        points.extend([pair[0] as f32, ((pair[0] + pair[1]) / 2.0) as f32]);
    }
    points.extend([largest as f32, (largest * 1.0625) as f32, (largest * 1.5) as f32]);
    for point in points {
        let bits = point.to_bits();
        // The point and its neighbours in f32.
        for x in [bits.saturating_sub(1), bits, (bits + 1).min(0x7f80_0000)].map(f32::from_bits) {
            let want = nearest(f64::from(x).min(largest));
            assert_eq!(encode(x), want, "{name}: {x:e}");
            if let Some(sign) = sign {
                assert_eq!(encode(-x), want | sign, "{name}: -{x:e}");
            }
        }
    }
}

fn positive<const N: usize>(decode: impl Fn(u8) -> f32) -> Vec<f64> {
    (0..N as u8).map(|code| f64::from(decode(code))).collect()
}

mod vs_float8 {
    use super::*;

    #[test]
    fn every_code() {
        for code in 0..=255u8 {
            let (ours, theirs) = (E4m3::from_bits(code).to_f32(), F8E4M3::from_bits(code).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "e4m3 {code:#x}");
            let (ours, theirs) = (E5m2::from_bits(code).to_f32(), F8E5M2::from_bits(code).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(), "e5m2 {code:#x}");
            let ours = Ue4m3::from_bits(code).to_f32();
            assert_eq!(ours.to_bits(), E4m3::from_bits(code & 0x7f).to_f32().to_bits(), "ue4m3 {code:#x}");
        }
        for nan in
            [E4m3::from_bits(0xff).to_f32(), E5m2::from_bits(0x7e).to_f32(), Ue4m3::from_bits(0xff).to_f32()]
        {
            assert_eq!(nan.to_bits(), 0x7fff_ffff);
        }
    }

    #[test]
    fn every_code_survives() {
        for code in (0..=255u8).filter(|code| code & 0x7f != 0x7f) {
            assert_eq!(E4m3::from_f32(E4m3::from_bits(code).to_f32()).to_bits(), code);
        }
        for code in (0..=255u8).filter(|code| code & 0x7f < 0x7c) {
            assert_eq!(E5m2::from_f32(E5m2::from_bits(code).to_f32()).to_bits(), code);
        }
        (0..0x7f)
            .for_each(|code| assert_eq!(Ue4m3::from_f32(Ue4m3::from_bits(code).to_f32()).to_bits(), code));
        (0..=254)
            .for_each(|code| assert_eq!(Ue8m0::from_f32(Ue8m0::from_bits(code).to_f32()).to_bits(), code));
        (0..16).for_each(|code| assert_eq!(E2m1::from_f32(E2m1::from_bits(code).to_f32()).to_bits(), code));
        for code in 0..64 {
            assert_eq!(E2m3::from_f32(E2m3::from_bits(code).to_f32()).to_bits(), code);
            assert_eq!(E3m2::from_f32(E3m2::from_bits(code).to_f32()).to_bits(), code);
        }
    }
}

mod vs_float4 {
    use super::*;

    #[test]
    fn every_code() {
        for code in 0..16u8 {
            let theirs = float4::F4E2M1::from_bits(code).to_f64();
            assert_eq!(f64::from(E2m1::from_bits(code).to_f32()).to_bits(), theirs.to_bits(), "{code:#x}");
        }
    }
}

/// Values by the formula of the OCP specifications.
mod vs_paper {
    use super::*;

    fn value(code: u8, exponent_bits: u32, mantissa_bits: u32, bias: i32) -> f64 {
        let mantissa = f64::from(code & ((1 << mantissa_bits) - 1)) / f64::from(1u32 << mantissa_bits);
        let exponent = i32::from(code >> mantissa_bits & ((1 << exponent_bits) - 1));
        let magnitude = match exponent {
            0 => mantissa * 2f64.powi(1 - bias),
            _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
        };
        if code >> (exponent_bits + mantissa_bits) & 1 == 1 { -magnitude } else { magnitude }
    }

    #[test]
    fn six_bit_codes_and_powers_of_two() {
        for code in 0..64u8 {
            assert_eq!(f64::from(E2m3::from_bits(code).to_f32()).to_bits(), value(code, 2, 3, 1).to_bits());
            assert_eq!(f64::from(E3m2::from_bits(code).to_f32()).to_bits(), value(code, 3, 2, 3).to_bits());
        }
        for code in 0..255u8 {
            assert_eq!(f64::from(Ue8m0::from_bits(code).to_f32()), 2f64.powi(i32::from(code) - 127));
        }
        assert!(Ue8m0::from_bits(255).to_f32().is_nan());
    }

    #[test]
    fn every_tie_and_its_neighbours() {
        let e4m3 = positive::<0x7f>(|code| E4m3::from_bits(code).to_f32());
        check_rounding("e4m3", &e4m3, |x| E4m3::from_f32(x).to_bits(), Some(0x80));
        let e5m2 = positive::<0x7c>(|code| E5m2::from_bits(code).to_f32());
        check_rounding("e5m2", &e5m2, |x| E5m2::from_f32(x).to_bits(), Some(0x80));
        check_rounding("ue4m3", &e4m3, |x| Ue4m3::from_f32(x).to_bits(), None);
        let e2m1 = positive::<8>(|code| E2m1::from_bits(code).to_f32());
        check_rounding("e2m1", &e2m1, |x| E2m1::from_f32(x).to_bits(), Some(8));
        let e2m3 = positive::<32>(|code| E2m3::from_bits(code).to_f32());
        check_rounding("e2m3", &e2m3, |x| E2m3::from_f32(x).to_bits(), Some(0x20));
        let e3m2 = positive::<32>(|code| E3m2::from_bits(code).to_f32());
        check_rounding("e3m2", &e3m2, |x| E3m2::from_f32(x).to_bits(), Some(0x20));
        let ue8m0 = positive::<255>(|code| Ue8m0::from_bits(code).to_f32());
        check_rounding("ue8m0", &ue8m0, |x| Ue8m0::from_f32(x).to_bits(), None);
    }

    #[test]
    fn nan_and_negative_scales() {
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)] {
            assert_eq!(E4m3::from_f32(nan).to_bits(), 0x7f);
            assert_eq!(E5m2::from_f32(nan).to_bits(), 0x7f);
            assert_eq!(Ue4m3::from_f32(nan).to_bits(), 0x7f);
            assert_eq!(Ue8m0::from_f32(nan).to_bits(), 0xff);
            assert_eq!(E2m1::from_f32(nan).to_bits(), 7);
            assert_eq!(E2m3::from_f32(nan).to_bits(), 0x1f);
            assert_eq!(E3m2::from_f32(nan).to_bits(), 0x1f);
        }
        for x in [-1.0, -0.0, f32::NEG_INFINITY] {
            assert_eq!((Ue4m3::from_f32(x).to_bits(), Ue8m0::from_f32(x).to_bits()), (0, 0));
        }
    }

    mod controls {
        use super::*;

        #[test]
        #[should_panic(expected = "truncated")]
        fn truncation_is_seen() {
            let e4m3 = positive::<0x7f>(|code| E4m3::from_bits(code).to_f32());
            let truncate = |x: f32| e4m3.partition_point(|v| *v <= f64::from(x)).max(1) as u8 - 1;
            check_rounding("truncated", &e4m3, truncate, None);
        }
    }
}

#[test]
fn low_nibble_first() {
    for byte in 0..=255u8 {
        let (lo, hi) = e2m1x2::unpack(byte);
        assert_eq!((lo.to_bits(), hi.to_bits()), (byte & 15, byte >> 4));
        assert_eq!(e2m1x2::pack(lo, hi), byte);
    }
}
