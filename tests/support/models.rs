//! Oracle checkpoints and goldens, and engines on them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vt_model::backend::Backend;
use vt_model::backend::cpu::{Activations, Cpu, Options};
use vt_model::engine::{Engine, EngineConfig, Request, Token};
use vt_model::model::Model;
use vt_model::weights::Weights;

use super::oracle;

/// The id of the line end, which closes an answer.
pub const LINE_END: u32 = 201;

/// One prompt of a golden file.
#[derive(Clone, Debug)]
pub struct Golden {
    pub prompt: Vec<u32>,
    pub ids: Vec<u32>,
    /// Log-probability of each id minus that of the runner-up.
    pub margins: Vec<f32>,
}

impl Golden {
    /// Ids up to the first whose margin is under `limit`.
    pub fn until(&self, limit: f32) -> &[u32] {
        let n = self.margins.iter().position(|&m| m < limit).unwrap_or(self.ids.len());
        &self.ids[..n]
    }

    /// Ids up to the line end, which is included.
    pub fn answer(&self) -> &[u32] {
        let n = self.ids.iter().position(|&id| id == LINE_END).map_or(self.ids.len(), |at| at + 1);
        &self.ids[..n]
    }
}

/// The prompts of a golden file, in either form.
pub fn goldens(path: &Path) -> Vec<Golden> {
    let text = std::fs::read_to_string(path).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ids = |v: &serde_json::Value| -> Vec<u32> {
        v.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let number = |v: &serde_json::Value| v.as_f64().unwrap() as f32;
    if let Some(rows) = json.as_array() {
        let margins = |row: &serde_json::Value| match row["margin_nats"].as_array() {
            Some(margins) => margins.iter().map(number).collect(),
            None => vec![f32::INFINITY; row["ids"].as_array().unwrap().len()],
        };
        return rows
            .iter()
            .map(|row| Golden {
                prompt: ids(&row["prompt_ids"]),
                ids: ids(&row["ids"]),
                margins: margins(row),
            })
            .collect();
    }
    let margins = |row: &serde_json::Value| {
        row["steps"].as_array().unwrap().iter().map(|step| number(&step["margin"])).collect()
    };
    let rows = json["prompts"].as_array().unwrap();
    rows.iter()
        .map(|row| Golden { prompt: ids(&row["prompt"]), ids: ids(&row["tokens"]), margins: margins(row) })
        .collect()
}

/// The checkpoint that is in the repository.
pub fn lightning() -> PathBuf {
    oracle::root().join("tests/data/lightning")
}

/// A checkpoint's weights.
pub fn weights(dir: &Path) -> Arc<Weights> {
    Arc::new(Weights::load(dir, &|_, _| ()).unwrap())
}

/// Activations in bf16, whatever the checkpoint says.
pub fn weight_only() -> Options {
    Options { activations: Activations::Bf16, ..Options::default() }
}

/// Room for twelve prompts at once.
pub fn roomy() -> EngineConfig {
    EngineConfig { block_size: 16, kv_blocks: 512, max_seqs: 16, max_prefill_tokens: 4096 }
}

/// An engine on the CPU.
pub fn engine(weights: &Arc<Weights>, options: Options, config: EngineConfig) -> Engine<Cpu> {
    Engine::new(Model::new(Cpu::new(options), weights.clone()).unwrap(), config).unwrap()
}

/// Runs requests to their ends and returns their tokens, request by request.
pub fn run<B: Backend>(engine: &mut Engine<B>, requests: &[Request]) -> Vec<Vec<Token>> {
    let ids: Vec<_> = requests.iter().map(|r| engine.add(r.clone()).unwrap()).collect();
    let mut out = vec![Vec::new(); requests.len()];
    while !engine.is_idle() {
        for token in engine.step().unwrap() {
            let at = ids.iter().position(|&id| id == token.request).unwrap();
            assert_eq!(token.index, out[at].len());
            out[at].push(token);
        }
    }
    out
}

/// The ids alone.
pub fn ids(tokens: &[Vec<Token>]) -> Vec<Vec<u32>> {
    tokens.iter().map(|row| row.iter().map(|token| token.id).collect()).collect()
}

/// Greedy requests for as many tokens as the goldens have.
pub fn requests(goldens: &[Golden]) -> Vec<Request> {
    goldens.iter().map(|g| Request { top_n: 2, ..Request::greedy(g.prompt.clone(), g.ids.len()) }).collect()
}

/// `Err` that tells the first id that differs; `Ok` tells how many were compared.
pub fn follows(want: &[&[u32]], got: &[Vec<u32>]) -> Result<usize, String> {
    let mut compared = 0;
    for (row, (want, got)) in want.iter().zip(got).enumerate() {
        if let Some(at) = (0..want.len()).find(|&i| got.get(i) != Some(&want[i])) {
            return Err(format!("prompt {row}, token {at}: got {:?}, expected {}", got.get(at), want[at]));
        }
        compared += want.len();
    }
    if compared == 0 { Err("nothing was compared".into()) } else { Ok(compared) }
}
