//! What is asked of the engine and what it answers.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Names a request; they count up from 0.
pub type RequestId = u64;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Divides the logits; 0 is greedy.
    pub temperature: f32,
    /// Keeps the best so many tokens.
    pub top_k: Option<u32>,
    /// Keeps the best tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as probable as the best; 0 keeps all.
    pub min_p: f32,
    /// Seed of the draws; equal seeds give equal tokens, whatever the batch.
    pub seed: u64,
    /// Divides positive and multiplies negative logits of tokens seen in prompt or output; 1 does nothing.
    pub repetition_penalty: f32,
    /// Subtracted from logits of tokens in the output.
    pub presence_penalty: f32,
    /// Subtracted from logits of tokens in the output, once for each time.
    pub frequency_penalty: f32,
}

impl Default for Sampling {
    /// Greedy, without penalties.
    fn default() -> Self {
        Sampling {
            temperature: 0.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            seed: 0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
        }
    }
}

impl Sampling {
    /// Whether a penalty changes the logits.
    pub(crate) fn penalises(&self) -> bool {
        (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1.0, 0.0, 0.0)
    }

    /// An error that names the first field out of range.
    pub fn check(&self) -> Result<()> {
        let refuse = |field: &str, got: f32, expected: &str| {
            Err(Error::Request(format!("{field}: {got}, expected {expected}")))
        };
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return refuse("temperature", self.temperature, "a finite number, at least 0");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return refuse("top_p", self.top_p, "above 0, at most 1");
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return refuse("min_p", self.min_p, "between 0 and 1");
        }
        if self.top_k == Some(0) {
            return refuse("top_k", 0.0, "at least 1");
        }
        if !(self.repetition_penalty.is_finite() && self.repetition_penalty > 0.0) {
            return refuse("repetition_penalty", self.repetition_penalty, "a finite number above 0");
        }
        for (field, got) in
            [("presence_penalty", self.presence_penalty), ("frequency_penalty", self.frequency_penalty)]
        {
            if !got.is_finite() {
                return refuse(field, got, "a finite number");
            }
        }
        Ok(())
    }
}

/// One prompt and how to continue it.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Token ids, at least one.
    pub prompt: Vec<u32>,
    /// Most tokens to produce; with 0 the request is finished at once.
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Ids that end the output (the model's own end of sequence among them, if it should).
    pub stop: Vec<u32>,
    /// How many of the best tokens to report with each token, at most 20.
    pub top_n: usize,
}

/// Most alternatives reported with a token.
pub const MAX_TOP_N: usize = 20;

impl Request {
    /// A greedy request for `max_tokens` tokens.
    pub fn greedy(prompt: Vec<u32>, max_tokens: usize) -> Self {
        Request { prompt, max_tokens, sampling: Sampling::default(), stop: Vec::new(), top_n: 0 }
    }

    pub(crate) fn check(&self, vocab_size: usize) -> Result<()> {
        if self.prompt.is_empty() {
            return Err(Error::Request("prompt: no tokens, expected at least one".into()));
        }
        if let Some(at) = self.prompt.iter().position(|&id| id as usize >= vocab_size) {
            let id = self.prompt[at];
            return Err(Error::Request(format!("prompt: id {id} at {at}, expected below {vocab_size}")));
        }
        let limit = MAX_TOP_N.min(vocab_size);
        if self.top_n > limit {
            return Err(Error::Request(format!("top_n: {}, expected at most {limit}", self.top_n)));
        }
        self.sampling.check()
    }
}

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// A stop id was produced.
    Stop,
    /// `max_tokens` were produced.
    Length,
}

/// One token that the engine produced.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The request.
    pub request: RequestId,
    /// Place in the request's output, from 0.
    pub index: usize,
    /// The token.
    pub id: u32,
    /// Its log-probability in nats, before penalties and temperature.
    pub logprob: f32,
    /// The best `top_n` tokens and their log-probabilities, best first.
    pub top: Vec<(u32, f32)>,
    /// Set on the last token of a request.
    pub finish: Option<Finish>,
}
