//! `norm/rms`.

use half::bf16;
use proptest::prelude::*;
use vt_kernels::norm::rms::{Plan, Shape};
use vt_kernels::{Arch, Element, RowsMut};

use super::lane_sum_of_squares;
use crate::support::biteq::{assert_biteq, biteq};
use crate::support::padded::{Padded, assert_refuses, within};
use crate::support::strategies::Rng;

const NONE: Option<&mut RowsMut<'static, bf16>> = None;

fn plan(cols: usize) -> Plan {
    Plan::new(Arch::Sm121a, Shape { cols }).unwrap()
}

/// Output and new residual.
fn run(
    x: &Padded<bf16>,
    weight: &[bf16],
    residual: Option<&Padded<bf16>>,
    pad: usize,
    eps: f32,
) -> (Padded<bf16>, Option<Padded<bf16>>) {
    let (rows, cols) = (x.view().rows(), weight.len());
    let mut out = Padded::poisoned(rows, cols, pad);
    let mut residual = residual.cloned();
    let mut view = residual.as_mut().map(Padded::view_mut);
    plan(cols).reference(x.view(), weight, view.as_mut(), &mut out.view_mut(), eps).unwrap();
    out.assert_padding();
    if let Some(residual) = &residual {
        residual.assert_padding();
    }
    (out, residual)
}

mod vs_reference {
    use super::*;

    /// The definition, step by step.
    fn naive(x: &[f32], weight: &[bf16], eps: f32) -> Vec<bf16> {
        let mean = lane_sum_of_squares(x, 8, 256) / x.len() as f32;
        let scale = 1.0 / (mean + eps).sqrt();
        x.iter().zip(weight).map(|(x, w)| Element::from_f32(x * scale * w.to_f32())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn equals_the_stated_order(seed: u64, rows in 0usize..4, cols in 1usize..2800, pads in (0usize..9, 0usize..9)) {
            let mut rng = Rng::new(seed);
            let x = Padded::<bf16>::extreme(&mut rng, rows, cols, pads.0);
            let residual = Padded::<bf16>::normal(&mut rng, rows, cols, pads.1, 1.0);
            let weight = rng.normals_bf16(cols, 1.0);
            let (out, sum) = run(&x, &weight, Some(&residual), pads.1, 1e-5);
            let sum = sum.unwrap();
            for i in 0..rows {
                let added: Vec<bf16> = x.row(i).iter().zip(residual.row(i))
                    .map(|(x, r)| Element::from_f32(r.to_f32() + x.to_f32())).collect();
                assert_biteq("residual", &sum.row(i), &added);
                let wide: Vec<f32> = added.iter().map(|x| x.to_f32()).collect();
                assert_biteq("out", &out.row(i), &naive(&wide, &weight, 1e-5));
                let alone = run(&x.slice(i..i + 1), &weight, Some(&residual.slice(i..i + 1)), 0, 1e-5).0;
                assert_biteq("alone", &alone.values(), &out.row(i));
            }
        }
    }
}

mod vs_paper {
    use super::*;

    /// Three roundings of 2^-24 and the sum's, then one of 2^-8 where it is stored.
    #[test]
    fn equals_the_formula_in_f64() {
        let mut rng = Rng::new(1);
        for cols in [1, 31, 256, 2688, 4096] {
            let x = Padded::<bf16>::normal(&mut rng, 3, cols, 5, 2.0);
            let weight = rng.normals_bf16(cols, 1.0);
            let got = run(&x, &weight, None, 0, 1e-5).0;
            for i in 0..3 {
                let row = x.slice(i..i + 1).f64s();
                let mean = row.iter().map(|x| x * x).sum::<f64>() / cols as f64;
                let scale = 1.0 / (mean + 1e-5f32 as f64).sqrt();
                let want: Vec<f64> = row.iter().zip(&weight).map(|(x, w)| x * scale * w.to_f64()).collect();
                let got = got.slice(i..i + 1).f64s();
                within(&got, &want, |w| w.abs() * (1.0 / 256.0 + 1e-5)).unwrap();
            }
        }
    }
}

mod controls {
    use super::*;

    #[test]
    fn another_order_is_seen() {
        let mut rng = Rng::new(3);
        let cols = 2688;
        let x = Padded::<f32>::normal(&mut rng, 16, cols, 0, 1.0);
        let weight = rng.normals(cols, 1.0);
        let mut out = Padded::<f32>::poisoned(16, cols, 0);
        plan(cols).reference(x.view(), &weight, NONE, &mut out.view_mut(), 0.0).unwrap();
        let wrong: Vec<f32> = (0..16)
            .flat_map(|i| {
                let row = x.row(i);
                let scale = 1.0 / (lane_sum_of_squares(&row, 1, 32) / cols as f32).sqrt();
                row.iter().zip(&weight).map(|(x, w)| x * scale * w).collect::<Vec<_>>()
            })
            .collect();
        assert!(biteq("out", &out.values(), &wrong).is_err());
    }
}

#[test]
fn errors_name_the_argument() {
    assert_refuses(Plan::new(Arch::Sm90a, Shape { cols: 0 }), "cols");
    assert!(Plan::new(Arch::Sm80, Shape { cols: 1 }).is_err());
    let x = Padded::<bf16>::normal(&mut Rng::new(1), 2, 8, 0, 1.0);
    let weight = vec![bf16::ONE; 8];
    let mut out = Padded::<bf16>::poisoned(2, 8, 0);
    let mut narrow = Padded::<bf16>::poisoned(2, 7, 0);
    let plan = plan(8);
    assert_refuses(plan.reference(narrow.view(), &weight, NONE, &mut out.view_mut(), 0.0), "x");
    assert_refuses(plan.reference(x.view(), &weight[1..], NONE, &mut out.view_mut(), 0.0), "weight");
    assert_refuses(plan.reference(x.view(), &weight, NONE, &mut out.view_mut(), -1.0), "eps");
    assert_refuses(plan.reference(x.view(), &weight, NONE, &mut out.view_mut(), f32::NAN), "eps");
    let mut short = narrow.clone();
    let mut residual = short.view_mut();
    assert_refuses(
        plan.reference(x.view(), &weight, Some(&mut residual), &mut out.view_mut(), 0.0),
        "residual",
    );
    assert_refuses(plan.reference(x.view(), &weight, NONE, &mut narrow.view_mut(), 0.0), "out");
    assert_biteq("untouched", &out.values(), &Padded::<bf16>::poisoned(2, 8, 0).values());
}
