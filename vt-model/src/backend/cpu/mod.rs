//! The model on the CPU: every operation is the reference of its kernel.

use std::ops::Range;
use std::sync::Arc;

use half::bf16;
use vt_kernels::{Arch, Element, Rows, embedding, moe as moe_kernels, norm};

use crate::backend::{Backend, CacheSize, MambaCall, Qkv};
use crate::batch::Batch;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::tensor::Matrix;
use crate::trace::Values;
use crate::weights::{Linear, Param, Weights};

mod attention;
mod linear;
mod mamba;
mod moe;

pub use attention::KvCache;
pub use mamba::MambaCache;
pub use moe::Routing;

/// What enters a quantised layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// What the checkpoint says: rounded to FP8 or NVFP4 where a layer has an input scale, and the KV cache
    /// to FP8 where the checkpoint asks for it.
    #[default]
    Checkpoint,
    /// bf16 everywhere, the KV cache too: weights alone are quantised.
    Bf16,
}

/// What the CPU backend models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The chip whose arithmetic is given.
    pub arch: Arch,
    /// What enters a quantised layer.
    pub activations: Activations,
}

impl Default for Options {
    /// GB10, activations as the checkpoint says.
    fn default() -> Self {
        Options { arch: Arch::Sm121a, activations: Activations::Checkpoint }
    }
}

/// The references as a backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    options: Options,
}

/// The residual stream in host memory.
#[derive(Clone, Debug)]
pub enum Residual {
    /// As the model's dtype.
    Bf16(Matrix<bf16>),
    /// `residual_in_fp32`.
    F32(Matrix<f32>),
}

impl Cpu {
    /// A backend that models `options.arch`.
    pub fn new(options: Options) -> Self {
        Cpu { options }
    }

    /// What is modelled.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Whether keys and values of this model are kept in FP8.
    pub fn kv_fp8(&self, config: &Config) -> bool {
        config.kv_cache_fp8 && self.options.activations == Activations::Checkpoint
    }

    /// RMSNorm of `x`, which is first added to the residual stream if there is one.
    fn rms<T: Element, R: Element>(
        &self,
        weight: &Param,
        x: &Matrix<T>,
        residual: Option<&mut Matrix<R>>,
        eps: f32,
    ) -> Result<Matrix<bf16>> {
        let plan = norm::rms::Plan::new(self.options.arch, norm::rms::Shape { cols: x.cols() })?;
        let mut out = Matrix::zeros(x.rows(), x.cols());
        let mut residual = match residual {
            Some(residual) => Some(residual.view_mut("residual")?),
            None => None,
        };
        let (x, mut view) = (x.view("x")?, out.view_mut("out")?);
        match weight {
            Param::Bf16 { data, .. } => plan.reference(x, data, residual.as_mut(), &mut view, eps)?,
            Param::F32 { data, .. } => plan.reference(x, data, residual.as_mut(), &mut view, eps)?,
        }
        Ok(out)
    }
}

impl Backend for Cpu {
    type Linear = Linear;
    type Param = Param;
    type Matrix<T: Element> = Matrix<T>;
    type Residual = Residual;
    type MambaCache = MambaCache;
    type KvCache = KvCache;
    type Routing = Routing;

    fn arch(&self) -> Arch {
        self.options.arch
    }

    fn load(&self, weights: Arc<Weights>) -> Result<Arc<Weights>> {
        for (name, linear) in weights.linears() {
            linear::arm(self.options, linear).map_err(|e| Error::Request(format!("{name}: {e}")))?;
        }
        Ok(weights)
    }

    fn mamba_cache(&self, config: &Config, size: &CacheSize) -> Result<MambaCache> {
        MambaCache::new(config, size)
    }

    fn read_states(&self, cache: &MambaCache, slots: &[i32]) -> (Vec<bf16>, Vec<f32>) {
        cache.read(slots)
    }

    fn kv_cache(&self, config: &Config, size: &CacheSize) -> Result<KvCache> {
        KvCache::new(config, size, self.kv_fp8(config))
    }

    fn clear_slot(&self, cache: &mut MambaCache, slot: usize) -> Result<()> {
        cache.clear(slot);
        Ok(())
    }

    fn clear_block(&self, cache: &mut KvCache, block: usize, block_size: usize) -> Result<()> {
        cache.clear(block * block_size..(block + 1) * block_size);
        Ok(())
    }

    fn read<T: Element>(&self, matrix: &Matrix<T>) -> Vec<T> {
        matrix.data().to_vec()
    }

    fn zeros(&self, rows: usize, cols: usize) -> Matrix<bf16> {
        Matrix::zeros(rows, cols)
    }

    fn embed(&self, table: &Param, ids: &[u32]) -> Result<Matrix<bf16>> {
        let Param::Bf16 { data, rows, cols } = table else {
            return Err(Error::Request("embeddings: f32, expected bf16".into()));
        };
        self.gather_rows(Rows::new("embeddings", data, *rows, *cols)?, ids)
    }

    fn select(&self, x: &Matrix<bf16>, rows: &[u32]) -> Result<Matrix<bf16>> {
        self.gather_rows(x.view("x")?, rows)
    }

    fn residual(&self, x: Matrix<bf16>, fp32: bool) -> Residual {
        if !fp32 {
            return Residual::Bf16(x);
        }
        let mut wide = Matrix::zeros(x.rows(), x.cols());
        for (wide, x) in wide.data_mut().iter_mut().zip(x.data()) {
            *wide = x.to_f32();
        }
        Residual::F32(wide)
    }

    fn read_residual(&self, residual: &Residual) -> Values {
        match residual {
            Residual::Bf16(x) => Values::new(x.data()),
            Residual::F32(x) => Values::new(x.data()),
        }
    }

    fn norm(&self, weight: &Param, residual: &Residual, eps: f32) -> Result<Matrix<bf16>> {
        match residual {
            Residual::Bf16(x) => self.rms(weight, x, None::<&mut Matrix<bf16>>, eps),
            Residual::F32(x) => self.rms(weight, x, None::<&mut Matrix<f32>>, eps),
        }
    }

    fn add_norm(
        &self,
        weight: &Param,
        x: &Matrix<bf16>,
        residual: &mut Residual,
        eps: f32,
    ) -> Result<Matrix<bf16>> {
        match residual {
            Residual::Bf16(sum) => self.rms(weight, x, Some(sum), eps),
            Residual::F32(sum) => self.rms(weight, x, Some(sum), eps),
        }
    }

    fn linear<O: Element>(&self, linear: &Linear, x: &Matrix<bf16>) -> Result<Matrix<O>> {
        linear::linear(self.options, linear, x)
    }

    fn router(&self, gate: &Param, x: &Matrix<bf16>) -> Result<Matrix<f32>> {
        linear::router(self.options.arch, gate, x)
    }

    fn conv_update(&self, call: &mut MambaCall<'_, Self>, xbc: Range<usize>) -> Result<()> {
        mamba::conv_update(self.options.arch, call, xbc)
    }

    fn conv_forward(&self, call: &mut MambaCall<'_, Self>, xbc: Range<usize>) -> Result<()> {
        mamba::conv_forward(self.options.arch, call, xbc)
    }

    fn state_update(&self, call: &mut MambaCall<'_, Self>, conv: &Matrix<bf16>) -> Result<()> {
        mamba::state_update(self.options.arch, call, conv)
    }

    fn chunk_scan(&self, call: &mut MambaCall<'_, Self>, conv: &Matrix<bf16>) -> Result<()> {
        mamba::chunk_scan(self.options.arch, call, conv)
    }

    fn gated_norm(
        &self,
        config: &Config,
        weight: &Param,
        y: &Matrix<bf16>,
        zxbcdt: &Matrix<bf16>,
    ) -> Result<Matrix<bf16>> {
        mamba::gated_norm(self.options.arch, config, weight, y, zxbcdt)
    }

    fn attention(
        &self,
        config: &Config,
        qkv: Qkv<'_, Self>,
        batch: &Batch,
        block_size: usize,
        cache: &mut KvCache,
    ) -> Result<Matrix<bf16>> {
        attention::attention(self.options.arch, config, &qkv, batch, block_size, cache)
    }

    fn route(
        &self,
        config: &Config,
        logits: &Matrix<f32>,
        correction_bias: Option<&Param>,
    ) -> Result<Routing> {
        moe::route(self.options.arch, config, logits, correction_bias)
    }

    fn read_routing(&self, routing: &Routing) -> (Vec<u32>, Vec<f32>) {
        (routing.ids.data().to_vec(), routing.weights.data().to_vec())
    }

    fn gather(&self, x: &Matrix<bf16>, routing: &Routing) -> Result<Matrix<bf16>> {
        moe::gather(self.options.arch, x, routing)
    }

    fn grouped_linear(
        &self,
        experts: &[&Linear],
        x: &Matrix<bf16>,
        routing: &Routing,
    ) -> Result<Matrix<bf16>> {
        linear::grouped(self.options, experts, x, &routing.offsets)
    }

    fn relu2(&self, x: &Matrix<bf16>) -> Result<Matrix<bf16>> {
        let shape = moe_kernels::relu2::Shape { cols: x.cols() };
        let mut out = Matrix::zeros(x.rows(), x.cols());
        let plan = moe_kernels::relu2::Plan::new(self.options.arch, shape)?;
        plan.reference(x.view("x")?, &mut out.view_mut("out")?)?;
        Ok(out)
    }

    fn combine(
        &self,
        expert_out: &Matrix<bf16>,
        routing: &Routing,
        shared: Option<&Matrix<bf16>>,
        routed_scaling_factor: f32,
    ) -> Result<Matrix<bf16>> {
        moe::combine(self.options.arch, expert_out, routing, shared, routed_scaling_factor)
    }

    fn add(&self, a: &Matrix<bf16>, b: &Matrix<bf16>) -> Result<Matrix<bf16>> {
        let shape = norm::residual_add::Shape { cols: a.cols() };
        let mut out = Matrix::zeros(a.rows(), a.cols());
        let plan = norm::residual_add::Plan::new(self.options.arch, shape)?;
        plan.reference(a.view("a")?, b.view("b")?, &mut out.view_mut("out")?)?;
        Ok(out)
    }
}

impl Cpu {
    fn gather_rows(&self, table: Rows<'_, bf16>, ids: &[u32]) -> Result<Matrix<bf16>> {
        let shape = embedding::gather::Shape { vocab: table.rows(), cols: table.cols() };
        let mut out = Matrix::zeros(ids.len(), table.cols());
        let plan = embedding::gather::Plan::new(self.options.arch, shape)?;
        plan.reference(table, ids, &mut out.view_mut("out")?)?;
        Ok(out)
    }
}
