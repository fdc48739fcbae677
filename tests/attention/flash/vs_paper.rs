//! Against softmax(q·kᵀ)·v in f64, within a bound.
//!
//! A step of a fold cuts 17 terms at 2^-25 of the largest and its result at 2^-23: at most 6 · 2^-23 of the sum of
//! magnitudes. So a logit is off by at most δ = (6 head_dim / 16 + 4) · 2^-23 · scale · Σ |q k| nats, four of
//! those units for scale, product and difference, and a weight by a factor within e^±2δ. Rounding weights to bf16
//! (2^-8), the fold over the keys and the f32 sums add up, in f32, to
//! `|out - paper| <= (1.01 · 2^-8 + 2.1 δ + (3 keys / 16 + 16) 2^-22) · Σ w |v|`, and a subnormal.

use half::bf16;
use proptest::prelude::*;
use vt_kernels::Arch;
use vt_kernels::attention::KvElement;
use vt_kernels::format::E4m3;

use super::{Setup, Tokens, setup};

/// What a wrong kernel does, for the controls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Broken {
    Nothing,
    /// Head `h` reads key-value head `h % n_kv_heads`.
    HeadsRoundRobin,
    /// A query sees the key after its own.
    MaskOneLater,
    /// A query does not see its own key.
    MaskOneEarlier,
    /// Keys from 512 on are lost.
    SplitDropped,
    /// The window is one key longer.
    WindowOneLonger,
    /// Keys' scale is not applied.
    KeyScaleMissing,
    /// Values' scale is applied twice.
    ValueScaleTwice,
}

/// Output of a head and how far off it may be.
fn paper<KV: KvElement>(
    setup: &Setup,
    tokens: &Tokens<KV>,
    position: usize,
    h: usize,
    broken: Broken,
) -> Vec<(f64, f64)> {
    let (hd, n_kv_heads) = (setup.shape.head_dim, setup.shape.n_kv_heads);
    let g = match broken {
        Broken::HeadsRoundRobin => h % n_kv_heads,
        _ => h / (setup.shape.n_heads / n_kv_heads),
    };
    let mut keys = setup.visible(position);
    match broken {
        Broken::MaskOneLater => keys.end = (keys.end + 1).min(tokens.k.len() / setup.kv_dim()),
        Broken::MaskOneEarlier => keys.end = (keys.end - 1).max(keys.start + 1),
        Broken::SplitDropped => keys.end = keys.end.min(512),
        Broken::WindowOneLonger => keys.start = keys.start.saturating_sub(1),
        _ => {}
    }
    let k_scale = if broken == Broken::KeyScaleMissing { 1.0 } else { f64::from(setup.k_scale) };
    let twice = if broken == Broken::ValueScaleTwice { f64::from(setup.v_scale) } else { 1.0 };
    let v_scale = f64::from(setup.v_scale) * twice;
    let scale = f64::from(setup.softmax_scale) * k_scale;

    let q: Vec<f64> =
        tokens.q[position * setup.q_dim() + h * hd..][..hd].iter().map(|&x| f64::from(x)).collect();
    let row = |x: &[KV], j: usize| -> Vec<f64> {
        x[j * setup.kv_dim() + g * hd..][..hd].iter().map(|x| f64::from(x.to_bf16())).collect()
    };
    let products = |j: usize| -> Vec<f64> { row(&tokens.k, j).iter().zip(&q).map(|(k, q)| k * q).collect() };
    let logits: Vec<f64> = keys.clone().map(|j| products(j).iter().sum::<f64>() * scale).collect();
    let magnitude = |j: usize| products(j).iter().map(|x| x.abs()).sum::<f64>() * scale;
    let largest = keys.clone().map(magnitude).fold(0.0, f64::max);
    let delta = (6.0 * (hd as f64 / 16.0).ceil() + 4.0) * 2f64.powi(-23) * largest;

    let m = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|s| (s - m).exp()).collect();
    let l: f64 = weights.iter().sum();
    let (mut out, mut absolute) = (vec![0.0; hd], vec![0.0; hd]);
    for (j, w) in keys.clone().zip(weights) {
        for (d, v) in row(&tokens.v, j).into_iter().enumerate() {
            out[d] += w / l * v * v_scale;
            absolute[d] += w / l * v.abs() * v_scale;
        }
    }
    let relative =
        1.01 * 2f64.powi(-8) + 2.1 * delta + (3.0 * keys.len() as f64 / 16.0 + 16.0) * 2f64.powi(-22);
    out.into_iter()
        .zip(absolute)
        .map(|(out, absolute)| (out, relative * absolute + 2f64.powi(-140)))
        .collect()
}

/// `Err` at the first element of the last `queries` positions that is off by more than its bound.
pub(super) fn check<KV: KvElement>(
    setup: &Setup,
    tokens: &Tokens<KV>,
    len: usize,
    queries: usize,
    broken: Broken,
) -> Result<(), String> {
    let got = setup.alone(tokens, len - queries..len);
    let heads = (len - queries..len).flat_map(|p| (0..setup.shape.n_heads).map(move |h| (p, h)));
    for ((position, h), got) in heads.zip(got.chunks(setup.shape.head_dim)) {
        for (d, (&got, (want, bound))) in
            got.iter().zip(paper(setup, tokens, position, h, broken)).enumerate()
        {
            let off = (f64::from(got) - want).abs();
            if off.is_nan() || off > bound {
                return Err(format!(
                    "{setup:?} len {len} position {position} head {h} [{d}]: {got}, expected {want} ± {bound}"
                ));
            }
        }
    }
    Ok(())
}

fn holds<KV: KvElement>(setup: Setup, len: usize, queries: usize) {
    check(&setup, &Tokens::<KV>::random(&setup, len, len as u64), len, queries, Broken::Nothing).unwrap();
}

#[test]
fn lengths_at_the_edges_of_blocks_and_splits() {
    for len in [1, 2, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1025] {
        holds::<bf16>(setup(4, 2, 64), len, len.min(3));
        holds::<E4m3>(Setup { k_scale: 0.7, v_scale: 1.9, ..setup(4, 2, 64) }, len, 1);
    }
    holds::<bf16>(setup(2, 1, 32), 513, 513);
}

#[test]
fn every_head_dim() {
    for head_dim in (8..=256).step_by(8) {
        holds::<bf16>(setup(2, 1, head_dim), 70, 2);
        holds::<E4m3>(setup(2, 1, head_dim), 67, 1);
    }
}

#[test]
fn every_ratio_of_heads() {
    for ratio in 1..=32 {
        holds::<bf16>(setup(2 * ratio, 2, 16), 66, 3);
    }
    // The layer of the 30B-A3B model, with its FP8 cache, decode and prefill.
    for queries in [1, 5] {
        holds::<E4m3>(Setup { arch: Arch::Sm121a, ..setup(32, 2, 128) }, 130, queries);
    }
}

#[test]
fn windows() {
    for window in [1, 2, 63, 64, 65, 128, 511, 512, 513, 2000] {
        for len in [1, 65, 700] {
            let mut setup = setup(2, 1, 16);
            setup.shape.window = Some(window);
            holds::<bf16>(setup, len, len.min(70));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_shape(
        (n_kv_heads, ratio, eighths) in (1usize..4, 1usize..9, 1usize..9),
        (len, queries) in (1usize..200, 1usize..20),
        window in prop::option::of(1usize..220),
        block_size in 1usize..70,
        seed in any::<u64>(),
        softmax_scale in 0.0f32..2.0,
    ) {
        let mut setup = Setup { softmax_scale, ..setup(n_kv_heads * ratio, n_kv_heads, eighths * 8) };
        (setup.shape.window, setup.shape.block_size) = (window, block_size);
        let tokens = Tokens::<bf16>::random(&setup, len, seed);
        check(&setup, &tokens, len, queries.min(len), Broken::Nothing).map_err(TestCaseError::fail)?;
    }
}
