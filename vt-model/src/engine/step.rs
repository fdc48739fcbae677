//! One step: which tokens go into the batch, and what comes out.

use std::sync::Arc;

use super::sampler::{self, Candidate};
use super::{Engine, Finish, Sequence, Token};
use crate::backend::Backend;
use crate::batch::Batch;
use crate::error::Result;
use crate::trace::{RowId, Trace};

/// A running sequence and how many of its tokens the step computes.
#[derive(Clone, Copy)]
struct Share {
    index: usize,
    tokens: usize,
}

impl<B: Backend> Engine<B> {
    pub(super) fn compute(&mut self, trace: &mut dyn Trace) -> Result<Vec<Token>> {
        let (shares, n_decode) = self.schedule();
        if shares.is_empty() {
            return Ok(Vec::new());
        }
        let batch = self.batch(&shares, n_decode);
        let logits = match self.model.forward(&batch, &mut self.cache, trace) {
            Ok(logits) => logits,
            Err(error) => {
                // Some layers have taken the tokens and some have not: those states cannot be used again.
                let lost: Vec<_> = shares.iter().map(|share| self.running[share.index].id).collect();
                for request in lost {
                    self.remove(request)?;
                }
                return Err(error);
            }
        };
        let logits = self.model.backend().read(&logits);
        for share in &shares {
            let sequence = &mut self.running[share.index];
            if !sequence.decodes() {
                self.prefilled += share.tokens;
            }
            sequence.computed += share.tokens;
        }
        self.produce(&shares, &logits)
    }

    /// Decodes first, then prompts in the order they came.
    fn schedule(&self) -> (Vec<Share>, usize) {
        let chunk = self.model.config().chunk_size;
        let (decodes, prefills): (Vec<_>, Vec<_>) =
            (0..self.running.len()).partition(|&index| self.running[index].decodes());
        let mut shares: Vec<_> = decodes.into_iter().map(|index| Share { index, tokens: 1 }).collect();
        let n_decode = shares.len();
        let mut budget = self.config.max_prefill_tokens;
        for index in prefills {
            let sequence = &self.running[index];
            let rest = sequence.prompt_len() - sequence.computed;
            let tokens = if rest <= budget { rest } else { budget / chunk * chunk };
            if tokens == 0 {
                break;
            }
            budget -= tokens;
            shares.push(Share { index, tokens });
        }
        (shares, n_decode)
    }

    fn batch(&self, shares: &[Share], n_decode: usize) -> Batch {
        let sequences = || shares.iter().map(|share| (&self.running[share.index], share.tokens));
        let max_blocks = sequences().map(|(s, _)| s.blocks.len()).max().unwrap_or(0);
        let block_size = self.config.block_size;
        let mut batch = Batch {
            ids: Vec::new(),
            rows: Arc::new([]),
            n_decode,
            cu_seqlens: vec![0],
            seq_lens: Vec::new(),
            block_table: Vec::new(),
            max_blocks,
            kv_slots: Vec::new(),
            slots: Vec::new(),
            has_initial: Vec::new(),
            logits_rows: Vec::new(),
        };
        let mut rows = Vec::new();
        for (sequence, tokens) in sequences() {
            let positions = sequence.computed..sequence.computed + tokens;
            batch.ids.extend(&sequence.tokens[positions.clone()]);
            for position in positions.clone() {
                rows.push(RowId { request: sequence.id, position: position as u32 });
                let block = sequence.blocks[position / block_size] as usize;
                batch.kv_slots.push((block * block_size + position % block_size) as i64);
            }
            batch.cu_seqlens.push(batch.ids.len() as u32);
            batch.seq_lens.push(positions.end as u32);
            batch.block_table.extend(&sequence.blocks);
            batch.block_table.resize(batch.seq_lens.len() * max_blocks, 0);
            batch.slots.push(sequence.slot as i32);
            batch.has_initial.push(sequence.computed > 0);
            if positions.end >= sequence.prompt_len() {
                batch.logits_rows.push(batch.ids.len() as u32 - 1);
            }
        }
        batch.rows = rows.into();
        batch
    }

    /// Chooses a token for each sequence whose tokens are all computed; finished sequences leave.
    fn produce(&mut self, shares: &[Share], logits: &[f32]) -> Result<Vec<Token>> {
        let vocab = self.model.config().vocab_size;
        let ready: Vec<usize> =
            shares.iter().map(|share| share.index).filter(|&i| self.running[i].decodes()).collect();
        let candidates: Vec<_> = ready.iter().map(|&i| candidate(&self.running[i])).collect();
        let choices = sampler::choose(self.model.backend().arch(), logits, vocab, &candidates)?;
        let mut produced = Vec::new();
        for (&i, choice) in ready.iter().zip(choices) {
            let sequence = &mut self.running[i];
            let index = sequence.output().len();
            sequence.tokens.push(choice.id);
            let finish = if sequence.request.stop.contains(&choice.id) {
                Some(Finish::Stop)
            } else {
                (index + 1 == sequence.request.max_tokens).then_some(Finish::Length)
            };
            let (request, id, logprob, top) = (sequence.id, choice.id, choice.logprob, choice.top);
            produced.push(Token { request, index, id, logprob, top, finish });
        }
        for token in produced.iter().filter(|token| token.finish.is_some()) {
            self.remove(token.request)?;
        }
        Ok(produced)
    }
}

fn candidate(sequence: &Sequence) -> Candidate<'_> {
    Candidate {
        sampling: sequence.request.sampling,
        prompt: &sequence.request.prompt,
        output: sequence.output(),
        top_n: sequence.request.top_n,
    }
}
