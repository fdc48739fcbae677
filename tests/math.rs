//! `vt_kernels::math` against f64, whose functions are far more exact than a unit in the last place of f32.

use rayon::prelude::*;
use vt_kernels::math;

/// A function, its f64 oracle, and the bound in ulp that its documentation states.
struct Case {
    name: &'static str,
    ours: fn(f32) -> f32,
    oracle: fn(f64) -> f64,
    ulp: f64,
}

fn softplus(x: f64) -> f64 {
    // Above 20 the definition is x itself.
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn silu(x: f64) -> f64 {
    if x == f64::NEG_INFINITY { -0.0 } else { x * sigmoid(x) }
}

fn relu2(x: f64) -> f64 {
    if x.is_nan() { x } else { x.max(0.0) * x.max(0.0) }
}

const CASES: [Case; 8] = [
    Case { name: "exp2", ours: math::exp2, oracle: f64::exp2, ulp: 0.88 },
    Case { name: "exp", ours: math::exp, oracle: f64::exp, ulp: 0.9 },
    Case { name: "log1p", ours: math::log1p, oracle: f64::ln_1p, ulp: 0.9 },
    Case { name: "softplus", ours: math::softplus, oracle: softplus, ulp: 1.73 },
    Case { name: "sigmoid", ours: math::sigmoid, oracle: sigmoid, ulp: 2.41 },
    Case { name: "silu", ours: math::silu, oracle: silu, ulp: 3.35 },
    Case { name: "relu2", ours: math::relu2, oracle: relu2, ulp: 0.5 },
    Case { name: "rsqrt", ours: math::rsqrt, oracle: |x| 1.0 / x.sqrt(), ulp: 1.5 },
];

/// Distance to the exact value in units in the last place of it as f32, at least those of 2^-149; infinite where a special
/// value is wrong.
fn error(got: f32, exact: f64) -> f64 {
    if exact.is_nan() || got.is_nan() {
        let right = exact.is_nan() && got.to_bits() == 0x7fff_ffff;
        return if right { 0.0 } else { f64::INFINITY };
    }
    if exact == 0.0 || exact.is_infinite() {
        let right = f64::from(got).to_bits() == exact.to_bits();
        return if right { 0.0 } else { f64::INFINITY };
    }
    // Where the exact value rounds to infinity, the largest finite number is one unit away.
    let capped = exact.clamp(-2f64.powi(128), 2f64.powi(128));
    let got = f64::from(got).clamp(-2f64.powi(128), 2f64.powi(128));
    (got - capped).abs() / ulp(exact as f32)
}

/// Distance to the next f32.
fn ulp(x: f32) -> f64 {
    let exponent = (x.abs().to_bits() >> 23).clamp(1, 254) as i32;
    2f64.powi(exponent - 127 - 23)
}

/// The largest error over some bit patterns, and where it is.
fn worst(case: &Case, bits: impl ParallelIterator<Item = u32>) -> (f64, f32) {
    let error = |bits: u32| {
        let x = f32::from_bits(bits);
        (error((case.ours)(x), (case.oracle)(x.into())), x)
    };
    bits.map(error).reduce(|| (0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a })
}

mod vs_paper {
    use super::*;

    /// Every 9,973rd bit pattern, a prime, so that all exponents and mantissas are met; and the special values.
    #[test]
    fn a_stride_of_all_f32() {
        for case in &CASES {
            let (ulp, x) = worst(case, (0..(1u64 << 32) / 9973).into_par_iter().map(|i| (i * 9973) as u32));
            assert!(ulp <= case.ulp, "{}({x:e}) = {:e}: {ulp} ulp", case.name, (case.ours)(x));
            let special =
                [0u32, 1, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x41a0_0000, 0x41a0_0001, 0x7f7f_ffff];
            let special = special.iter().chain(&[0x7f80_0000, 0x7fc0_0000, 0x7f80_0001]);
            for bits in special.flat_map(|bits| [*bits, bits | 0x8000_0000]) {
                let (ulp, x) = worst(case, rayon::iter::once(bits));
                assert!(ulp <= case.ulp, "{}({x:e}) = {:e}: {ulp} ulp", case.name, (case.ours)(x));
            }
        }
    }

    /// `cargo test --release -p vt-tests -- --ignored all_f32 --nocapture`
    #[test]
    #[ignore = "all 2^32 inputs of each function: minutes in release"]
    fn all_f32() {
        let mut broken = Vec::new();
        for case in &CASES {
            let (ulp, x) = worst(case, (0..=u32::MAX).into_par_iter());
            println!("{}: {ulp:.4} ulp at {x:e}", case.name);
            if ulp > case.ulp {
                broken.push(case.name);
            }
        }
        assert!(broken.is_empty(), "{broken:?}");
    }

    #[test]
    fn softplus_does_not_overflow_and_is_x_above_20() {
        for x in [20.000002, 88.0, 1000.0, f32::MAX, f32::INFINITY] {
            assert_eq!(math::softplus(x), x);
        }
        assert_eq!(math::softplus(f32::NEG_INFINITY), 0.0);
    }

    mod controls {
        use super::*;

        #[test]
        fn a_wrong_coefficient_is_seen() {
            let wrong =
                Case { name: "exp", ours: |x| math::exp(x) * 1.000_000_2, oracle: f64::exp, ulp: 1.0 };
            assert!(worst(&wrong, (0x3f00_0000u32..0x3f00_1000).into_par_iter()).0 > 1.0);
            let clamped = Case { ours: |x| math::exp(x.min(80.0)), ..wrong };
            assert!(worst(&clamped, rayon::iter::once(100f32.to_bits())).0 > 1.0);
        }
    }
}
