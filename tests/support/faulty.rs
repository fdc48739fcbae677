//! The CPU backend with one fault: negative controls for whatever watches a model.

use std::ops::Range;
use std::sync::Arc;

use half::bf16;
use vt_kernels::{Arch, Element};
use vt_model::backend::cpu::{Cpu, KvCache, MambaCache, Residual, Routing};
use vt_model::backend::{Backend, CacheSize, MambaCall, Qkv};
use vt_model::batch::Batch;
use vt_model::config::Config;
use vt_model::error::Result;
use vt_model::tensor::Matrix;
use vt_model::trace::Values;
use vt_model::weights::{Linear, Param, Weights};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The scan forgets the state of earlier tokens.
    DroppedCarry,
    /// Embeds the token before the one that is asked for.
    StaleToken,
    /// Normalises over all of d_inner instead of a group.
    WrongNormGroup,
    /// Applies the routed scaling factor twice.
    ScaleTwice,
    /// Weighs experts by the score that selects them.
    BiasedRoutingWeight,
}

/// [`Cpu`] with a fault.
pub struct Faulty {
    pub cpu: Cpu,
    pub fault: Fault,
}

fn host<'a>(call: &'a mut MambaCall<'_, Faulty>) -> MambaCall<'a, Cpu> {
    MambaCall {
        config: call.config,
        weights: call.weights,
        zxbcdt: call.zxbcdt,
        batch: call.batch,
        cache: call.cache,
        out: call.out,
    }
}

impl Backend for Faulty {
    type Linear = Linear;
    type Param = Param;
    type Matrix<T: Element> = Matrix<T>;
    type Residual = Residual;
    type MambaCache = MambaCache;
    type KvCache = KvCache;
    type Routing = Routing;

    fn arch(&self) -> Arch {
        self.cpu.arch()
    }

    fn load(&self, weights: Arc<Weights>) -> Result<Arc<Weights>> {
        self.cpu.load(weights)
    }

    fn mamba_cache(&self, config: &Config, size: &CacheSize) -> Result<MambaCache> {
        self.cpu.mamba_cache(config, size)
    }

    fn kv_cache(&self, config: &Config, size: &CacheSize) -> Result<KvCache> {
        self.cpu.kv_cache(config, size)
    }

    fn clear_slot(&self, cache: &mut MambaCache, slot: usize) -> Result<()> {
        self.cpu.clear_slot(cache, slot)
    }

    fn clear_block(&self, cache: &mut KvCache, block: usize, block_size: usize) -> Result<()> {
        self.cpu.clear_block(cache, block, block_size)
    }

    fn read<T: Element>(&self, matrix: &Matrix<T>) -> Vec<T> {
        self.cpu.read(matrix)
    }

    fn read_states(&self, cache: &MambaCache, slots: &[i32]) -> (Vec<bf16>, Vec<f32>) {
        self.cpu.read_states(cache, slots)
    }

    fn zeros(&self, rows: usize, cols: usize) -> Matrix<bf16> {
        self.cpu.zeros(rows, cols)
    }

    fn embed(&self, table: &Param, ids: &[u32]) -> Result<Matrix<bf16>> {
        let mut ids = ids.to_vec();
        if self.fault == Fault::StaleToken && ids.len() == 1 {
            ids[0] = 1;
        }
        self.cpu.embed(table, &ids)
    }

    fn select(&self, x: &Matrix<bf16>, rows: &[u32]) -> Result<Matrix<bf16>> {
        self.cpu.select(x, rows)
    }

    fn residual(&self, x: Matrix<bf16>, fp32: bool) -> Residual {
        self.cpu.residual(x, fp32)
    }

    fn read_residual(&self, residual: &Residual) -> Values {
        self.cpu.read_residual(residual)
    }

    fn norm(&self, weight: &Param, residual: &Residual, eps: f32) -> Result<Matrix<bf16>> {
        self.cpu.norm(weight, residual, eps)
    }

    fn add_norm(
        &self,
        weight: &Param,
        x: &Matrix<bf16>,
        residual: &mut Residual,
        eps: f32,
    ) -> Result<Matrix<bf16>> {
        self.cpu.add_norm(weight, x, residual, eps)
    }

    fn linear<O: Element>(&self, linear: &Linear, x: &Matrix<bf16>) -> Result<Matrix<O>> {
        self.cpu.linear(linear, x)
    }

    fn router(&self, gate: &Param, x: &Matrix<bf16>) -> Result<Matrix<f32>> {
        self.cpu.router(gate, x)
    }

    fn conv_update(&self, call: &mut MambaCall<'_, Self>, xbc: Range<usize>) -> Result<()> {
        self.cpu.conv_update(&mut host(call), xbc)
    }

    fn conv_forward(&self, call: &mut MambaCall<'_, Self>, xbc: Range<usize>) -> Result<()> {
        self.cpu.conv_forward(&mut host(call), xbc)
    }

    fn state_update(&self, call: &mut MambaCall<'_, Self>, conv: &Matrix<bf16>) -> Result<()> {
        self.cpu.state_update(&mut host(call), conv)
    }

    fn chunk_scan(&self, call: &mut MambaCall<'_, Self>, conv: &Matrix<bf16>) -> Result<()> {
        let mut batch = call.batch.clone();
        if self.fault == Fault::DroppedCarry {
            batch.has_initial.fill(false);
        }
        self.cpu.chunk_scan(&mut MambaCall { batch: &batch, ..host(call) }, conv)
    }

    fn gated_norm(
        &self,
        config: &Config,
        weight: &Param,
        y: &Matrix<bf16>,
        zxbcdt: &Matrix<bf16>,
    ) -> Result<Matrix<bf16>> {
        let mut config = config.clone();
        if self.fault == Fault::WrongNormGroup {
            config.n_groups = 1;
        }
        self.cpu.gated_norm(&config, weight, y, zxbcdt)
    }

    fn attention(
        &self,
        config: &Config,
        qkv: Qkv<'_, Self>,
        batch: &Batch,
        block_size: usize,
        cache: &mut KvCache,
    ) -> Result<Matrix<bf16>> {
        let Qkv { q, k, v, k_scale, v_scale } = qkv;
        self.cpu.attention(config, Qkv { q, k, v, k_scale, v_scale }, batch, block_size, cache)
    }

    fn route(&self, config: &Config, logits: &Matrix<f32>, bias: Option<&Param>) -> Result<Routing> {
        if self.fault != Fault::BiasedRoutingWeight {
            return self.cpu.route(config, logits, bias);
        }
        // sigmoid(x) + b as the score: a logit that gives it, so that selection and weight see the bias.
        let mut biased = logits.clone();
        let bias = bias.map(Param::to_f32).unwrap_or_default();
        let cols = biased.cols();
        for row in biased.data_mut().chunks_exact_mut(cols) {
            for (logit, bias) in row.iter_mut().zip(&bias) {
                let score = (1.0 / (1.0 + (-*logit).exp()) + 10.0 * bias).clamp(1e-6, 1.0 - 1e-6);
                *logit = (score / (1.0 - score)).ln();
            }
        }
        self.cpu.route(config, &biased, None)
    }

    fn read_routing(&self, routing: &Routing) -> (Vec<u32>, Vec<f32>) {
        self.cpu.read_routing(routing)
    }

    fn gather(&self, x: &Matrix<bf16>, routing: &Routing) -> Result<Matrix<bf16>> {
        self.cpu.gather(x, routing)
    }

    fn grouped_linear(
        &self,
        experts: &[&Linear],
        x: &Matrix<bf16>,
        routing: &Routing,
    ) -> Result<Matrix<bf16>> {
        self.cpu.grouped_linear(experts, x, routing)
    }

    fn relu2(&self, x: &Matrix<bf16>) -> Result<Matrix<bf16>> {
        self.cpu.relu2(x)
    }

    fn combine(
        &self,
        expert_out: &Matrix<bf16>,
        routing: &Routing,
        shared: Option<&Matrix<bf16>>,
        factor: f32,
    ) -> Result<Matrix<bf16>> {
        let factor = if self.fault == Fault::ScaleTwice { factor * factor } else { factor };
        self.cpu.combine(expert_out, routing, shared, factor)
    }

    fn add(&self, a: &Matrix<bf16>, b: &Matrix<bf16>) -> Result<Matrix<bf16>> {
        self.cpu.add(a, b)
    }
}
