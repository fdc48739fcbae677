//! `norm/gated_group`.

use half::bf16;
use proptest::prelude::*;
use safetensors::SafeTensors;
use vt_kernels::norm::gated_group::{Plan, Shape};
use vt_kernels::{Arch, Element, math};

use super::lane_sum_of_squares;
use crate::support::biteq::assert_biteq;
use crate::support::oracle::oracle_dir;
use crate::support::padded::{Padded, assert_refuses, within};
use crate::support::strategies::Rng;

fn run<T: Element + crate::support::biteq::Bits>(
    x: &Padded<T>,
    gate: &Padded<T>,
    weight: Option<&[T]>,
    n_groups: usize,
    pad: usize,
) -> Padded<T> {
    let shape = Shape { cols: x.view().cols(), n_groups };
    let mut out = Padded::poisoned(x.view().rows(), shape.cols, pad);
    let plan = Plan::new(Arch::Sm90a, shape).unwrap();
    plan.reference(x.view(), gate.view(), weight, &mut out.view_mut(), 1e-5).unwrap();
    out.assert_padding();
    out
}

/// The formula in f64; `before` gates before the norm, as it must be.
fn formula(x: &[f64], gate: &[f64], weight: &[f64], group: usize, before: bool) -> Vec<f64> {
    let silu = |g: f64| g / (1.0 + (-g).exp());
    let gated: Vec<f64> = x.iter().zip(gate).map(|(x, g)| if before { x * silu(*g) } else { *x }).collect();
    let normed = gated.chunks(group).flat_map(|v| {
        let mean = v.iter().map(|v| v * v).sum::<f64>() / group as f64;
        v.iter().map(move |v| v / (mean + 1e-5).sqrt()).collect::<Vec<_>>()
    });
    let after = |g: &f64| if before { 1.0 } else { silu(*g) };
    normed.zip(gate).zip(weight).map(|((v, g), w)| v * after(g) * w).collect()
}

mod vs_reference {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn equals_the_stated_order(seed: u64, rows in 0usize..4, n_groups in 1usize..9, group in 1usize..600, pad in 0usize..5) {
            let mut rng = Rng::new(seed);
            let cols = n_groups * group;
            let x = Padded::<bf16>::extreme(&mut rng, rows, cols, pad);
            let gate = Padded::<bf16>::extreme(&mut rng, rows, cols, pad + 1);
            let weight = rng.normals_bf16(cols, 1.0);
            let got = run(&x, &gate, Some(&weight), n_groups, pad);
            for i in 0..rows {
                let v: Vec<f32> = x.row(i).iter().zip(gate.row(i))
                    .map(|(x, g)| x.to_f32() * math::silu(g.to_f32())).collect();
                let want: Vec<bf16> = v.chunks(group).zip(weight.chunks(group)).flat_map(|(v, w)| {
                    let scale = 1.0 / (lane_sum_of_squares(v, 8, 32) / group as f32 + 1e-5).sqrt();
                    v.iter().zip(w).map(|(v, w)| {
                        let inner: bf16 = Element::from_f32(v * scale);
                        Element::from_f32(inner.to_f32() * w.to_f32())
                    }).collect::<Vec<bf16>>()
                }).collect();
                assert_biteq("out", &got.row(i), &want);
                let alone = run(&x.slice(i..i + 1), &gate.slice(i..i + 1), Some(&weight), n_groups, 0);
                assert_biteq("alone", &alone.values(), &want);
            }
        }
    }

    #[test]
    fn no_weight_is_a_weight_of_one() {
        let mut rng = Rng::new(5);
        let (x, gate) =
            (Padded::<f32>::normal(&mut rng, 2, 64, 0, 1.0), Padded::<f32>::normal(&mut rng, 2, 64, 0, 1.0));
        let with = run(&x, &gate, Some(&[1.0; 64]), 4, 0);
        assert_biteq("out", &run(&x, &gate, None, 4, 0).values(), &with.values());
    }
}

mod vs_paper {
    use super::*;

    /// silu 3 ulp, the sum, the root, three products: 16 roundings of 2^-24 are more than that.
    const BOUND: f64 = 16.0 / (1u32 << 24) as f64;

    fn inputs(rng: &mut Rng) -> (Padded<f32>, Padded<f32>, Vec<f32>) {
        let x = Padded::normal(rng, 2, 4096, 3, 2.0);
        (x, Padded::normal(rng, 2, 4096, 1, 2.0), rng.normals(4096, 1.0))
    }

    fn check(n_groups: usize, before: bool) -> Result<(), String> {
        let (x, gate, weight) = inputs(&mut Rng::new(7));
        let got = run(&x, &gate, Some(&weight), 8, 0);
        for i in 0..2 {
            let row = |m: &Padded<f32>| m.slice(i..i + 1).f64s();
            let weight: Vec<f64> = weight.iter().map(|w| f64::from(*w)).collect();
            let want = formula(&row(&x), &row(&gate), &weight, 4096 / n_groups, before);
            within(&row(&got), &want, |w| w.abs() * BOUND + 1e-9)?;
        }
        Ok(())
    }

    #[test]
    fn equals_the_formula_in_f64() {
        check(8, true).unwrap();
    }

    mod controls {
        use super::*;

        #[test]
        fn a_wrong_group_or_a_gate_behind_the_norm_is_seen() {
            assert!(check(1, true).is_err());
            assert!(check(4, true).is_err());
            assert!(check(8, false).is_err());
        }
    }
}

mod vs_transformers {
    use super::*;

    /// The oracle's own f32 arithmetic is in another order: 2^-18 of the largest output.
    #[test]
    fn equals_the_oracle() {
        let Some(dir) = oracle_dir("gated_group equals_the_oracle") else { return };
        let bytes = std::fs::read(dir.join("ops.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let f32s =
            |name: &str| -> Vec<f32> { bytemuck::pod_collect_to_vec(file.tensor(name).unwrap().data()) };
        let matrix = |name: &str| {
            let mut values = f32s(name).into_iter();
            Padded::<f32>::new(3, 512, 0, 0.0, || values.next().unwrap())
        };
        let want: Vec<f64> = f32s("gnorm.y").iter().map(|x| f64::from(*x)).collect();
        let weight = f32s("gnorm.weight");
        let close = [1, 2, 4, 8].map(|n_groups| {
            let got = run(&matrix("gnorm.x"), &matrix("gnorm.gate"), Some(&weight), n_groups, 0);
            within(&got.f64s(), &want, |w| (w.abs() + 1.0) * 2f64.powi(-18)).is_ok()
        });
        assert_eq!(
            close.iter().filter(|close| **close).count(),
            1,
            "{close:?}: one grouping is the oracle's"
        );
        assert!(close[1], "{close:?}: the oracle has two groups");
    }
}

#[test]
fn errors_name_the_argument() {
    assert_refuses(Plan::new(Arch::Sm90a, Shape { cols: 0, n_groups: 1 }), "cols");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { cols: 6, n_groups: 4 }), "n_groups");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { cols: 6, n_groups: 0 }), "n_groups");
    let plan = Plan::new(Arch::Sm90a, Shape { cols: 6, n_groups: 2 }).unwrap();
    let x = Padded::<f32>::normal(&mut Rng::new(1), 2, 6, 0, 1.0);
    let narrow = Padded::<f32>::normal(&mut Rng::new(1), 2, 5, 0, 1.0);
    let mut out = Padded::<f32>::poisoned(2, 6, 0);
    let weight = [1.0f32; 6];
    assert_refuses(plan.reference(narrow.view(), x.view(), Some(&weight), &mut out.view_mut(), 0.0), "x");
    assert_refuses(plan.reference(x.view(), narrow.view(), Some(&weight), &mut out.view_mut(), 0.0), "gate");
    let short = Some(&weight[1..]);
    assert_refuses(plan.reference(x.view(), x.view(), short, &mut out.view_mut(), 0.0), "weight");
    let nan = f32::NAN;
    assert_refuses(plan.reference(x.view(), x.view(), Some(&weight), &mut out.view_mut(), nan), "eps");
    let mut few = Padded::<f32>::poisoned(1, 6, 0);
    assert_refuses(plan.reference(x.view(), x.view(), Some(&weight), &mut few.view_mut(), 0.0), "out");
}
