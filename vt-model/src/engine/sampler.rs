//! From logits to tokens, by the sampling kernels.

use vt_kernels::sampling::{logprobs, penalties, sample};
use vt_kernels::{Arch, Rows, RowsMut};

use crate::engine::request::Sampling;
use crate::error::Result;

/// A sequence whose next token is chosen.
pub(super) struct Candidate<'a> {
    pub(super) sampling: Sampling,
    pub(super) prompt: &'a [u32],
    pub(super) output: &'a [u32],
    pub(super) top_n: usize,
}

/// A token, its log-probability, and the best alternatives.
pub(super) struct Choice {
    pub(super) id: u32,
    pub(super) logprob: f32,
    pub(super) top: Vec<(u32, f32)>,
}

/// One choice for each row of `logits` `[candidates, vocab]`.
pub(super) fn choose(
    arch: Arch,
    logits: &[f32],
    vocab: usize,
    candidates: &[Candidate<'_>],
) -> Result<Vec<Choice>> {
    let rows = candidates.len();
    let raw = Rows::new("logits", logits, rows, vocab)?;
    let ids = sample_ids(arch, raw, logits, candidates)?;

    let top_n = candidates.iter().map(|c| c.top_n).max().unwrap_or(0);
    let mut chosen = vec![0.0; rows];
    let (mut top_ids, mut top) = (vec![0; rows * top_n], vec![0.0; rows * top_n]);
    let plan = logprobs::Plan::new(arch, logprobs::Shape { vocab, top_n })?;
    plan.reference(
        raw,
        &ids,
        &mut chosen,
        &mut RowsMut::new("top_ids", &mut top_ids, rows, top_n)?,
        &mut RowsMut::new("top_logprobs", &mut top, rows, top_n)?,
    )?;
    let choices = candidates.iter().enumerate().map(|(i, candidate)| {
        let best = top_ids[i * top_n..].iter().zip(&top[i * top_n..]).take(candidate.top_n);
        Choice { id: ids[i], logprob: chosen[i], top: best.map(|(&id, &p)| (id, p)).collect() }
    });
    Ok(choices.collect())
}

fn sample_ids(
    arch: Arch,
    raw: Rows<'_, f32>,
    logits: &[f32],
    candidates: &[Candidate<'_>],
) -> Result<Vec<u32>> {
    let (rows, vocab) = (raw.rows(), raw.cols());
    let params: Vec<_> = candidates
        .iter()
        .map(|c| sample::Params {
            temperature: c.sampling.temperature,
            top_k: c.sampling.top_k,
            top_p: c.sampling.top_p,
            min_p: c.sampling.min_p,
            seed: c.sampling.seed,
            step: c.output.len() as u64,
        })
        .collect();
    let mut ids = vec![0; rows];
    let plan = sample::Plan::new(arch, sample::Shape { vocab })?;
    if !candidates.iter().any(|c| c.sampling.penalises()) {
        plan.reference(raw, &params, &mut ids)?;
        return Ok(ids);
    }
    let amounts: Vec<_> = candidates
        .iter()
        .map(|c| penalties::Penalties {
            repetition: c.sampling.repetition_penalty,
            presence: c.sampling.presence_penalty,
            frequency: c.sampling.frequency_penalty,
        })
        .collect();
    let prompts: Vec<_> = candidates.iter().map(|c| c.prompt).collect();
    let outputs: Vec<_> = candidates.iter().map(|c| c.output).collect();
    let mut penalised = logits.to_vec();
    penalties::Plan::new(arch, penalties::Shape { vocab })?.reference(
        &amounts,
        &prompts,
        &outputs,
        &mut RowsMut::new("logits", &mut penalised, rows, vocab)?,
    )?;
    plan.reference(Rows::new("logits", &penalised, rows, vocab)?, &params, &mut ids)?;
    Ok(ids)
}
