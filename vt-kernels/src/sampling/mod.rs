//! From logits to tokens: penalties, choice, log-probabilities. Rows are sequences; each is treated alone.

pub mod argmax;
pub mod logprobs;
pub mod penalties;
pub mod sample;

mod philox;
mod softmax;

use crate::{Error, Result, Rows};

/// A vocabulary has tokens, and ids fit 32 bits.
fn check_vocab(vocab: usize) -> Result<()> {
    if vocab == 0 || u32::try_from(vocab).is_err() {
        return Err(Error::value("vocab", vocab, "1 to 2^32 - 1"));
    }
    Ok(())
}

fn check_logits(logits: &Rows<'_, f32>, vocab: usize) -> Result<()> {
    logits.expect("logits", logits.rows(), vocab, "[rows, vocab]")
}

/// The best token: the lowest index of the largest logit. NaN is never the largest.
fn best(logits: &[f32]) -> usize {
    let mut best = 0;
    let mut largest = f32::NEG_INFINITY;
    for (i, &logit) in logits.iter().enumerate() {
        if logit > largest {
            (best, largest) = (i, logit);
        }
    }
    best
}
