//! Continuous batching: requests come and go, each step computes one batch of decodes and prefill chunks.
//!
//! Requests are admitted in the order they came, each with every KV page it can need, so an admitted request
//! always runs to its end. A step takes one token of each sequence that decodes, then prompt tokens of those
//! that prefill, up to [`EngineConfig::max_prefill_tokens`]; a prompt is cut at multiples of the scan's chunk,
//! so its bits do not depend on where it was cut. Pages and slots are zeroed when they are taken.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, CacheSize};
use crate::config::{Config, LayerKind};
use crate::error::{Error, Result};
use crate::model::{Cache, Model};
use crate::trace::{NoTrace, Trace};

mod pool;
mod request;
mod sampler;
mod step;

use pool::Pool;
pub use request::{Finish, MAX_TOP_N, Request, RequestId, Sampling, Token};

/// Sizes of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineConfig {
    /// Tokens in a KV page.
    pub block_size: usize,
    /// KV pages, for each attention layer.
    pub kv_blocks: usize,
    /// Most sequences at once: recurrent slots.
    pub max_seqs: usize,
    /// Most prompt tokens in one step, at least the scan's chunk size.
    pub max_prefill_tokens: usize,
}

impl Default for EngineConfig {
    /// 8 sequences, 16,384 tokens of cache in pages of 16, 2,048 prompt tokens a step.
    fn default() -> Self {
        EngineConfig { block_size: 16, kv_blocks: 1024, max_seqs: 8, max_prefill_tokens: 2048 }
    }
}

/// Bytes of one KV page over all attention layers.
pub fn kv_bytes_per_block(config: &Config, block_size: usize, kv_fp8: bool) -> u64 {
    let layers = config.layers.iter().filter(|kind| **kind == LayerKind::Attention).count();
    let element = if kv_fp8 { 1 } else { 2 };
    let factors = [2, layers, config.kv_dim(), block_size, element];
    factors.iter().fold(1u64, |product, &n| product.saturating_mul(n as u64))
}

/// How much of the prompts is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Prompt tokens computed, over all requests so far.
    pub prefilled: usize,
    /// Prompt tokens not yet computed.
    pub to_prefill: usize,
}

#[derive(Debug)]
struct Sequence {
    id: RequestId,
    request: Request,
    /// Prompt, then output.
    tokens: Vec<u32>,
    /// Tokens in the state.
    computed: usize,
    blocks: Vec<u32>,
    slot: u32,
}

impl Sequence {
    fn prompt_len(&self) -> usize {
        self.request.prompt.len()
    }

    fn output(&self) -> &[u32] {
        &self.tokens[self.prompt_len()..]
    }

    fn decodes(&self) -> bool {
        self.computed >= self.prompt_len()
    }
}

/// Runs requests on a model.
pub struct Engine<B: Backend> {
    model: Model<B>,
    cache: Cache<B>,
    config: EngineConfig,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    blocks: Pool,
    slots: Pool,
    next: RequestId,
    prefilled: usize,
}

impl<B: Backend> Engine<B> {
    /// An engine with all its memory reserved. An error names the size that is out of range.
    pub fn new(model: Model<B>, config: EngineConfig) -> Result<Self> {
        let chunk = model.config().chunk_size;
        for (field, got, least) in [
            ("block_size", config.block_size, 1),
            ("kv_blocks", config.kv_blocks, 1),
            ("max_seqs", config.max_seqs, 1),
            ("max_prefill_tokens", config.max_prefill_tokens, chunk),
        ] {
            if got < least || got > i32::MAX as usize {
                return Err(Error::Request(format!("{field}: {got}, expected {least} to {}", i32::MAX)));
            }
        }
        let size =
            CacheSize { block_size: config.block_size, kv_blocks: config.kv_blocks, slots: config.max_seqs };
        let cache = model.cache(size)?;
        let (blocks, slots) = (Pool::new(config.kv_blocks), Pool::new(config.max_seqs));
        let (waiting, running) = (VecDeque::new(), Vec::new());
        Ok(Engine { model, cache, config, waiting, running, blocks, slots, next: 0, prefilled: 0 })
    }

    /// The sizes.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The model.
    pub fn model(&self) -> &Model<B> {
        &self.model
    }

    /// Queues a request. An error says what is wrong with it, or that it can never fit the KV pages.
    pub fn add(&mut self, request: Request) -> Result<RequestId> {
        request.check(self.model.config().vocab_size)?;
        let needed = self.blocks_needed(&request);
        if needed > self.config.kv_blocks {
            return Err(Error::Request(format!(
                "max_tokens: {} after a prompt of {} needs {needed} KV pages of {} tokens, expected at most kv_blocks = {}",
                request.max_tokens,
                request.prompt.len(),
                self.config.block_size,
                self.config.kv_blocks,
            )));
        }
        let id = self.next;
        self.next += 1;
        if request.max_tokens > 0 {
            let tokens = request.prompt.clone();
            self.waiting.push_back(Sequence {
                id,
                request,
                tokens,
                computed: 0,
                blocks: Vec::new(),
                slot: 0,
            });
        }
        Ok(id)
    }

    /// Computes one batch and returns the tokens it produced; finished requests leave. Without work it
    /// returns no tokens. After an error the requests of that batch are gone: their states are half written.
    pub fn step(&mut self) -> Result<Vec<Token>> {
        self.step_traced(&mut NoTrace)
    }

    /// [`Engine::step`], telling `trace` what is computed.
    pub fn step_traced(&mut self, trace: &mut dyn Trace) -> Result<Vec<Token>> {
        self.admit()?;
        self.compute(trace)
    }

    /// Replaces the request's last output token before it is fed: teacher forcing.
    pub fn force(&mut self, request: RequestId, id: u32) -> Result<()> {
        let vocab_size = self.model.config().vocab_size;
        if id as usize >= vocab_size {
            return Err(Error::Request(format!("id: {id}, expected below {vocab_size}")));
        }
        let running = self.running.iter_mut().find(|s| s.id == request && s.tokens.len() > s.prompt_len());
        match running.and_then(|s| s.tokens.last_mut()) {
            Some(last) => *last = id,
            None => return Err(Error::Request(format!("request: {request} has no output token to be fed"))),
        }
        Ok(())
    }

    /// Drops a request, finished or not, and frees its memory.
    pub fn remove(&mut self, request: RequestId) -> Result<()> {
        if let Some(at) = self.waiting.iter().position(|s| s.id == request) {
            self.waiting.remove(at);
        } else if let Some(at) = self.running.iter().position(|s| s.id == request) {
            let sequence = self.running.remove(at);
            self.free(&sequence);
        } else {
            return Err(Error::Request(format!("request: {request} is not waiting or running")));
        }
        Ok(())
    }

    /// Whether every request is finished.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// How much of the prompts is computed.
    pub fn progress(&self) -> Progress {
        let sequences = self.waiting.iter().chain(&self.running);
        let to_prefill = sequences.map(|s| s.prompt_len().saturating_sub(s.computed)).sum();
        Progress { prefilled: self.prefilled, to_prefill }
    }

    /// KV pages and recurrent slots that are free.
    pub fn free_memory(&self) -> (usize, usize) {
        (self.blocks.available(), self.slots.available())
    }

    /// Steps until idle, token by token. After an error the iterator ends.
    pub fn tokens(&mut self) -> Tokens<'_, B> {
        Tokens { engine: self, ready: VecDeque::new(), failed: false }
    }

    /// The last token is produced but never fed.
    fn blocks_needed(&self, request: &Request) -> usize {
        let tokens = request.prompt.len().saturating_add(request.max_tokens.saturating_sub(1));
        tokens.div_ceil(self.config.block_size)
    }

    fn admit(&mut self) -> Result<()> {
        while let Some(first) = self.waiting.front() {
            let needed = self.blocks_needed(&first.request);
            if self.slots.available() == 0 || self.blocks.available() < needed {
                break;
            }
            let (Some(slot), Some(blocks)) = (self.slots.take(1), self.blocks.take(needed)) else { break };
            let Some(mut sequence) = self.waiting.pop_front() else { break };
            self.model.clear_slot(&mut self.cache, slot[0] as usize)?;
            for &block in &blocks {
                self.model.clear_block(&mut self.cache, block as usize)?;
            }
            (sequence.slot, sequence.blocks) = (slot[0], blocks);
            self.running.push(sequence);
        }
        Ok(())
    }

    fn free(&mut self, sequence: &Sequence) {
        self.blocks.give(&sequence.blocks);
        self.slots.give(&[sequence.slot]);
    }
}

/// Tokens of an engine's requests, in the order they are produced.
pub struct Tokens<'a, B: Backend> {
    engine: &'a mut Engine<B>,
    ready: VecDeque<Token>,
    failed: bool,
}

impl<B: Backend> Iterator for Tokens<'_, B> {
    type Item = Result<Token>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            if self.failed || self.engine.is_idle() {
                return None;
            }
            match self.engine.step() {
                Ok(tokens) => self.ready.extend(tokens),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
