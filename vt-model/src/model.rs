//! Nemotron-H: embedding, layers of one mixer and one norm each, final norm, lm_head.

use std::sync::Arc;

use crate::backend::{Backend, CacheSize};
use crate::batch::Batch;
use crate::config::Config;
use crate::error::Result;
use crate::layer::{Step, attention, mamba2, moe};
use crate::trace::{RowId, Trace, Values};
use crate::weights::{Mixer, Weights};

/// A model on a backend.
pub struct Model<B: Backend> {
    backend: B,
    weights: Arc<Weights<B::Linear, B::Param>>,
}

/// State of all sequences: one entry for each layer.
pub struct Cache<B: Backend> {
    size: CacheSize,
    layers: Vec<LayerCache<B>>,
}

enum LayerCache<B: Backend> {
    Mamba(B::MambaCache),
    Attention(B::KvCache),
    Stateless,
}

impl<B: Backend> Model<B> {
    /// Makes the weights resident on the backend.
    pub fn new(backend: B, weights: Arc<Weights>) -> Result<Self> {
        let weights = backend.load(weights)?;
        Ok(Model { backend, weights })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.weights.config
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Zeroed state for `size`.
    pub fn cache(&self, size: CacheSize) -> Result<Cache<B>> {
        let config = self.config();
        let mut layers = Vec::new();
        for layer in &self.weights.layers {
            layers.push(match layer.mixer {
                Mixer::Mamba(_) => LayerCache::Mamba(self.backend.mamba_cache(config, &size)?),
                Mixer::Attention(_) => LayerCache::Attention(self.backend.kv_cache(config, &size)?),
                Mixer::Moe(_) | Mixer::Mlp(_) => LayerCache::Stateless,
            });
        }
        Ok(Cache { size, layers })
    }

    /// Zeroes a recurrent slot in every layer.
    pub fn clear_slot(&self, cache: &mut Cache<B>, slot: usize) -> Result<()> {
        for layer in &mut cache.layers {
            if let LayerCache::Mamba(states) = layer {
                self.backend.clear_slot(states, slot)?;
            }
        }
        Ok(())
    }

    /// Zeroes a KV page in every layer.
    pub fn clear_block(&self, cache: &mut Cache<B>, block: usize) -> Result<()> {
        for layer in &mut cache.layers {
            if let LayerCache::Attention(pages) = layer {
                self.backend.clear_block(pages, block, cache.size.block_size)?;
            }
        }
        Ok(())
    }

    /// Logits `[logits_rows, vocab_size]` in f32 of one batch; the cache takes the batch's tokens.
    ///
    /// Per layer: `x = norm(residual)`, `residual += mixer(x)`, the sum rounded to the type of the residual
    /// stream before the next norm reads it.
    pub fn forward(
        &self,
        batch: &Batch,
        cache: &mut Cache<B>,
        trace: &mut dyn Trace,
    ) -> Result<B::Matrix<f32>> {
        let (backend, weights, config) = (&self.backend, &*self.weights, self.config());
        let eps = config.layer_norm_epsilon;
        let block_size = cache.size.block_size;
        let mut step = Step { backend, config, batch, block_size, layer: None, trace };

        let embedded = backend.embed(&weights.embeddings, &batch.ids)?;
        step.matrix("embedding", &embedded);
        let mut residual = backend.residual(embedded, config.residual_in_fp32);
        let first = weights.layers.first().map_or(&weights.norm, |layer| &layer.norm);
        let mut x = backend.norm(first, &residual, eps)?;
        for (i, (layer, state)) in weights.layers.iter().zip(&mut cache.layers).enumerate() {
            step.layer = Some(i);
            step.matrix("norm", &x);
            let out = match (&layer.mixer, state) {
                (Mixer::Mamba(w), LayerCache::Mamba(states)) => mamba2::forward(&mut step, w, states, &x)?,
                (Mixer::Attention(w), LayerCache::Attention(pages)) => {
                    attention::forward(&mut step, w, pages, &x)?
                }
                (Mixer::Moe(w), _) => moe::forward(&mut step, w, &x)?,
                (Mixer::Mlp(w), _) => moe::mlp(&mut step, w, &x)?,
                _ => {
                    return Err(crate::error::Error::Request(format!(
                        "cache: made for another model, layer {i}"
                    )));
                }
            };
            let next = weights.layers.get(i + 1).map_or(&weights.norm, |layer| &layer.norm);
            x = backend.add_norm(next, &out, &mut residual, eps)?;
            if step.trace.enabled() {
                step.values("residual", batch.rows.clone(), backend.read_residual(&residual));
            }
        }
        step.layer = None;
        step.matrix("final_norm", &x);
        let rows: Arc<[RowId]> = batch.logits_rows.iter().map(|&row| batch.rows[row as usize]).collect();
        let logits = backend.linear::<f32>(&weights.lm_head, &backend.select(&x, &batch.logits_rows)?)?;
        if step.trace.enabled() {
            step.values("logits", rows, Values::F32(backend.read(&logits)));
        }
        Ok(logits)
    }
}
