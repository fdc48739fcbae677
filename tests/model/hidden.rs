//! Hidden states after each layer against transformers in f32.
//!
//! Bound: a row's error is the bf16 rounding of what was written before it. A layer rounds its activations
//! about eight times by at most u = 2^-9 of their size, and the residual sum once more; errors of different
//! roundings are independent. The stated bound on ‖h − oracle‖ / ‖oracle‖ of a row after layer l is
//! 6·u·sqrt(l + 1) with the routing of experts as the oracle's; the worst is printed.

use std::path::Path;

use safetensors::SafeTensors;
use vt_model::backend::cpu::Options;
use vt_model::engine::{EngineConfig, Request};
use vt_model::trace::{Entry, Record, Values};

use crate::support::models::{engine, roomy, weights};
use crate::support::oracle::oracle_dir;

const U: f64 = 1.0 / 512.0;

fn f32s(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let tensor = file.tensor(name).unwrap();
    bytemuck::pod_collect_to_vec(tensor.data())
}

fn prompt(file: &SafeTensors<'_>, name: &str) -> Vec<u32> {
    let ids: Vec<i64> = bytemuck::pod_collect_to_vec(file.tensor(name).unwrap().data());
    ids.iter().map(|&id| id as u32).collect()
}

fn trace(dir: &Path, prompt: &[u32], config: EngineConfig) -> Vec<Entry> {
    let mut engine = engine(&weights(dir), Options::default(), config);
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

/// The largest ‖got − want‖ / ‖want‖ over rows.
fn worst_row(got: &[f32], want: &[f32], cols: usize) -> f64 {
    assert_eq!(got.len(), want.len());
    let norm = |row: &mut dyn Iterator<Item = f64>| row.map(|x| x * x).sum::<f64>().sqrt();
    let rows = got.chunks(cols).zip(want.chunks(cols)).map(|(got, want)| {
        let difference = norm(&mut got.iter().zip(want).map(|(g, w)| f64::from(*g) - f64::from(*w)));
        difference / norm(&mut want.iter().map(|w| f64::from(*w))).max(1e-30)
    });
    rows.fold(0.0, f64::max)
}

fn check(name: &str, layer: usize, got: &[f32], want: &[f32], cols: usize) {
    let (worst, bound) = (worst_row(got, want, cols), 6.0 * U * ((layer + 1) as f64).sqrt());
    eprintln!("{name} {layer}: worst relative error of a row {worst:.5}, bound {bound:.5}");
    assert!(worst <= bound, "{name} {layer}: {worst} > {bound}");
}

#[test]
fn three_chunks_whole_and_cut() {
    let Some(dir) = oracle_dir("three_chunks_whole_and_cut") else { return };
    let bytes = std::fs::read(dir.join("hidden_f32_prompt10.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let prompt = prompt(&file, "input_ids");
    for max_prefill_tokens in [4096, 128] {
        let config = EngineConfig { max_prefill_tokens, ..roomy() };
        let entries = trace(&dir.join("bf16"), &prompt, config);
        assert_eq!(operation(&entries, None, "embedding"), f32s(&file, "hidden_0"));
        for layer in 0..9 {
            let got = operation(&entries, Some(layer), "residual");
            check("hidden", layer, &got, &f32s(&file, &format!("hidden_{}", layer + 1)), 192);
        }
        // The last hidden state of transformers is the normed one.
        check("final norm", 9, &operation(&entries, None, "final_norm"), &f32s(&file, "hidden_10"), 192);
        let logits = operation(&entries, None, "logits");
        let want = f32s(&file, "logits");
        check("logits", 9, &logits, &want[want.len() - logits.len()..], 512);
    }
}

#[test]
fn latent_layers_and_states() {
    let Some(dir) = oracle_dir("latent_layers_and_states") else { return };
    let bytes = std::fs::read(dir.join("hidden_latent_f32.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let prompt = prompt(&file, "prompt");
    let entries = trace(&dir.join("latent"), &prompt, roomy());
    for layer in 0..5 {
        let got = operation(&entries, Some(layer), "residual");
        check("block", layer, &got, &f32s(&file, &format!("block.{layer}")), 256);
    }
    for layer in [0, 2] {
        let got = operation(&entries, Some(layer), "ssm_state");
        check("ssm_state", layer, &got, &f32s(&file, &format!("ssm_state.{layer}")), 64);
        // The oracle keeps conv_kernel = 4 inputs of each channel, we the last three.
        let want = f32s(&file, &format!("conv_state.{layer}"));
        let want: Vec<f32> = want.chunks(4).flat_map(|taps| taps[1..].to_vec()).collect();
        let got = operation(&entries, Some(layer), "conv_state");
        check("conv_state", layer, &got, &want, got.len());
    }
}
