//! Hidden states after each layer against transformers in f32.
//!
//! Bound: a row's error is the bf16 rounding of what was written before it. A layer rounds its activations
//! about eight times by at most u = 2^-9 of their size, and the residual sum once more; errors of different
//! roundings are independent. The stated bound on ‖h − oracle‖ / ‖oracle‖ of a row after layer l is
//! 6·u·sqrt(l + 1) for rows whose experts are chosen clearly; the worst is printed.

use std::sync::Arc;

use safetensors::SafeTensors;
use vt_model::backend::cpu::Options;
use vt_model::engine::{EngineConfig, Request};
use vt_model::trace::{Entry, Record, Values};
use vt_model::weights::{Mixer, Weights};

use crate::support::models::{engine, roomy, weights};
use crate::support::oracle::oracle_dir;

const U: f64 = 1.0 / 512.0;
/// Scores this near, times the number of layers, may change places when activations are rounded to bf16.
const ROUTER_TIE: f32 = 0.0015;

fn f32s(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let tensor = file.tensor(name).unwrap();
    bytemuck::pod_collect_to_vec(tensor.data())
}

fn prompt(file: &SafeTensors<'_>, name: &str) -> Vec<u32> {
    let ids: Vec<i64> = bytemuck::pod_collect_to_vec(file.tensor(name).unwrap().data());
    ids.iter().map(|&id| id as u32).collect()
}

fn trace(weights: &Arc<Weights>, prompt: &[u32], config: EngineConfig) -> Vec<Entry> {
    let mut engine = engine(weights, Options::default(), config);
    engine.add(Request::greedy(prompt.to_vec(), 1)).unwrap();
    let mut record = Record::default();
    while !engine.is_idle() {
        engine.step_traced(&mut record).unwrap();
    }
    record.entries
}

fn values(entry: &Entry) -> Vec<f32> {
    match &entry.values {
        Values::Bf16(v) => v.iter().map(|x| x.to_f32()).collect(),
        Values::F32(v) => v.clone(),
        Values::U32(v) => v.iter().map(|&x| x as f32).collect(),
    }
}

/// All rows of an operation, chunk after chunk.
fn operation(entries: &[Entry], layer: Option<usize>, name: &str) -> Vec<f32> {
    let of = entries.iter().filter(|e| e.layer == layer && e.operation == name);
    of.flat_map(values).collect()
}

/// ‖got − want‖ / ‖want‖ of each row.
fn row_errors(got: &[f32], want: &[f32], cols: usize) -> Vec<f64> {
    assert_eq!(got.len(), want.len());
    let norm = |row: &mut dyn Iterator<Item = f64>| row.map(|x| x * x).sum::<f64>().sqrt();
    let rows = got.chunks(cols).zip(want.chunks(cols)).map(|(got, want)| {
        let difference = norm(&mut got.iter().zip(want).map(|(g, w)| f64::from(*g) - f64::from(*w)));
        difference / norm(&mut want.iter().map(|w| f64::from(*w))).max(1e-30)
    });
    rows.collect()
}

/// Rows for which another expert or group was near being chosen in a layer up to this one: what rounds differently may route
/// differently, and the more the deeper the layer is.
fn router_ties(entries: &[Entry], weights: &Weights, layer: usize, rows: usize) -> Vec<bool> {
    let config = &weights.config;
    let mut ties = vec![false; rows];
    for (l, weights) in weights.layers[..=layer].iter().enumerate() {
        let Mixer::Moe(moe) = &weights.mixer else { continue };
        let bias = moe.correction_bias.as_ref().unwrap().to_f32();
        let logits = operation(entries, Some(l), "router_logits");
        for (tie, logits) in ties.iter_mut().zip(logits.chunks(bias.len())) {
            let choice = |(x, b): (&f32, &f32)| 1.0 / (1.0 + (-x).exp()) + b;
            let choices: Vec<f32> = logits.iter().zip(&bias).map(choice).collect();
            let sorted = |mut v: Vec<f32>| {
                v.sort_by(|a, b| b.total_cmp(a));
                v
            };
            let size = choices.len() / config.n_group;
            let groups = choices.chunks(size).map(|g| sorted(g.to_vec())[..2].iter().sum());
            let groups: Vec<f32> = groups.collect();
            let order = sorted(groups.clone());
            let gap = |v: &[f32], k: usize| v.get(k).map_or(f32::INFINITY, |next| v[k - 1] - next);
            let kept = choices.chunks(size).zip(&groups).filter(|(_, g)| **g >= order[config.topk_group - 1]);
            let kept = sorted(kept.flat_map(|(choices, _)| choices.to_vec()).collect());
            let least = gap(&order, config.topk_group).min(gap(&kept, config.num_experts_per_tok));
            *tie |= least < ROUTER_TIE * (l + 1) as f32;
        }
    }
    ties
}

/// Rows without a near tie of the router must be within the bound; of the others there may be few, and they
/// must be near.
fn check(name: &str, layer: usize, errors: &[f64], ties: &[bool]) {
    let bound = 6.0 * U * ((layer + 1) as f64).sqrt();
    let worst = |tie| {
        let of = errors.iter().zip(ties).filter(|(_, t)| **t == tie);
        of.map(|(e, _)| *e).fold(0.0, f64::max)
    };
    let tied = ties.iter().filter(|tie| **tie).count();
    let (clear, near) = (worst(false), worst(true));
    eprintln!("{name} {layer}: worst {clear:.5}, bound {bound:.5}; {tied} router ties, worst {near:.5}");
    assert!(clear <= bound, "{name} {layer}: {clear} > {bound}");
    assert!(near <= 0.5 && tied * 4 <= ties.len(), "{name} {layer}: {tied} ties, worst {near}");
}

#[test]
fn three_chunks_whole_and_cut() {
    let Some(dir) = oracle_dir("three_chunks_whole_and_cut") else { return };
    let bytes = std::fs::read(dir.join("hidden_f32_prompt10.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (prompt, weights) = (prompt(&file, "input_ids"), weights(&dir.join("bf16")));
    for max_prefill_tokens in [4096, 128] {
        let config = EngineConfig { max_prefill_tokens, ..roomy() };
        let entries = trace(&weights, &prompt, config);
        assert_eq!(operation(&entries, None, "embedding"), f32s(&file, "hidden_0"));
        let ties = |layer| router_ties(&entries, &weights, layer, prompt.len());
        for layer in 0..9 {
            let got = operation(&entries, Some(layer), "residual");
            let want = f32s(&file, &format!("hidden_{}", layer + 1));
            check("hidden", layer, &row_errors(&got, &want, 192), &ties(layer));
        }
        // The last hidden state of transformers is the normed one.
        let got = operation(&entries, None, "final_norm");
        check("final norm", 9, &row_errors(&got, &f32s(&file, "hidden_10"), 192), &ties(9));
        let logits = operation(&entries, None, "logits");
        let want = f32s(&file, "logits");
        let errors = row_errors(&logits, &want[want.len() - logits.len()..], 512);
        check("logits", 9, &errors, &[false]);
    }
}

#[test]
fn latent_layers_and_states() {
    let Some(dir) = oracle_dir("latent_layers_and_states") else { return };
    let bytes = std::fs::read(dir.join("hidden_latent_f32.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let prompt = prompt(&file, "prompt");
    let weights = weights(&dir.join("latent"));
    let entries = trace(&weights, &prompt, roomy());
    for layer in 0..5 {
        let got = operation(&entries, Some(layer), "residual");
        let errors = row_errors(&got, &f32s(&file, &format!("block.{layer}")), 256);
        check("block", layer, &errors, &router_ties(&entries, &weights, layer, prompt.len()));
    }
    for layer in [0, 2] {
        // Head by head: a state of 32 × 64.
        let got = operation(&entries, Some(layer), "ssm_state");
        let errors = row_errors(&got, &f32s(&file, &format!("ssm_state.{layer}")), 32 * 64);
        check("ssm_state", layer, &errors, &[false; 16]);
        // The oracle keeps conv_kernel = 4 inputs of each channel, we the last three.
        let want = f32s(&file, &format!("conv_state.{layer}"));
        let want: Vec<f32> = want.chunks(4).flat_map(|taps| taps[1..].to_vec()).collect();
        let got = operation(&entries, Some(layer), "conv_state");
        check("conv_state", layer, &row_errors(&got, &want, got.len()), &[false]);
    }
}
