//! What a forward pass asks of the machine that runs it.

use std::ops::Range;
use std::sync::Arc;

use half::bf16;
use vt_kernels::{Arch, Element};

use crate::batch::Batch;
use crate::config::Config;
use crate::error::Result;
use crate::weights::{Mamba, Weights};

pub mod cpu;

/// How many tokens and sequences a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize {
    /// Tokens in a KV page.
    pub block_size: usize,
    /// KV pages.
    pub kv_blocks: usize,
    /// Recurrent slots.
    pub slots: usize,
}

/// The operations of Nemotron-H on one machine. Activations are bf16 matrices `[total_tokens, features]`.
///
/// Every result is defined by the kernel of `vt-kernels` that the operation names; an implementation gives
/// those bits, whatever the batch.
pub trait Backend {
    /// A resident linear layer.
    type Linear;
    /// A resident parameter that is not a linear layer.
    type Param;
    /// A resident matrix.
    type Matrix<T: Element>;
    /// The residual stream, bf16 or f32.
    type Residual;
    /// Conv and SSM states of one Mamba layer, for every slot.
    type MambaCache;
    /// Keys and values of one attention layer, for every page.
    type KvCache;
    /// Which rows go to which expert.
    type Routing;

    /// The architecture whose arithmetic this backend gives.
    fn arch(&self) -> Arch;

    /// Makes the weights resident, after checking that every layer has an arm here.
    fn load(&self, weights: Arc<Weights>) -> Result<Arc<Weights<Self::Linear, Self::Param>>>;

    /// Zeroed states of a Mamba layer.
    fn mamba_cache(&self, config: &Config, size: &CacheSize) -> Result<Self::MambaCache>;

    /// Conv and SSM states of the slots in host memory, a row for each slot.
    fn read_states(&self, cache: &Self::MambaCache, slots: &[i32]) -> (Vec<bf16>, Vec<f32>);

    /// Zeroed pages of an attention layer.
    fn kv_cache(&self, config: &Config, size: &CacheSize) -> Result<Self::KvCache>;

    /// Zeroes the states of a slot.
    fn clear_slot(&self, cache: &mut Self::MambaCache, slot: usize) -> Result<()>;

    /// Zeroes a page of `block_size` tokens.
    fn clear_block(&self, cache: &mut Self::KvCache, block: usize, block_size: usize) -> Result<()>;

    /// A copy in host memory.
    fn read<T: Element>(&self, matrix: &Self::Matrix<T>) -> Vec<T>;

    /// A matrix of zeros.
    fn zeros(&self, rows: usize, cols: usize) -> Self::Matrix<bf16>;

    /// Rows of the table ([`vt_kernels::embedding::gather`]).
    fn embed(&self, table: &Self::Param, ids: &[u32]) -> Result<Self::Matrix<bf16>>;

    /// The rows `rows` of `x`.
    fn select(&self, x: &Self::Matrix<bf16>, rows: &[u32]) -> Result<Self::Matrix<bf16>>;

    /// The residual stream, begun with `x`.
    fn residual(&self, x: Self::Matrix<bf16>, fp32: bool) -> Self::Residual;

    /// The residual stream in host memory, as f32 where it is f32.
    fn read_residual(&self, residual: &Self::Residual) -> crate::trace::Values;

    /// RMSNorm of the residual stream ([`vt_kernels::norm::rms`]).
    fn norm(&self, weight: &Self::Param, residual: &Self::Residual, eps: f32) -> Result<Self::Matrix<bf16>>;

    /// Adds `x` to the residual stream, then RMSNorm of it ([`vt_kernels::norm::rms`]).
    fn add_norm(
        &self,
        weight: &Self::Param,
        x: &Self::Matrix<bf16>,
        residual: &mut Self::Residual,
        eps: f32,
    ) -> Result<Self::Matrix<bf16>>;

    /// `x · Wᵀ + bias` by the arm that the weight's format and the backend's options name.
    fn linear<O: Element>(&self, linear: &Self::Linear, x: &Self::Matrix<bf16>) -> Result<Self::Matrix<O>>;

    /// The router's product in f32 ([`vt_kernels::gemm::f32`]).
    fn router(&self, gate: &Self::Param, x: &Self::Matrix<bf16>) -> Result<Self::Matrix<f32>>;

    /// Causal conv of the tokens that decode: columns `xbc` of the first rows of `zxbcdt`
    /// ([`vt_kernels::conv1d::update`]).
    fn conv_update(&self, call: &mut MambaCall<'_, Self>, xbc: Range<usize>) -> Result<()>;

    /// Causal conv of the tokens that prefill ([`vt_kernels::conv1d::forward`]).
    fn conv_forward(&self, call: &mut MambaCall<'_, Self>, xbc: Range<usize>) -> Result<()>;

    /// Recurrence of the tokens that decode, from the conv's output in `conv`
    /// ([`vt_kernels::mamba2::state_update`]).
    fn state_update(&self, call: &mut MambaCall<'_, Self>, conv: &Self::Matrix<bf16>) -> Result<()>;

    /// Scan of the tokens that prefill ([`vt_kernels::mamba2::chunk_scan`]).
    fn chunk_scan(&self, call: &mut MambaCall<'_, Self>, conv: &Self::Matrix<bf16>) -> Result<()>;

    /// Gated group norm of `y`, gate in the first columns of `zxbcdt`
    /// ([`vt_kernels::norm::gated_group`]).
    fn gated_norm(
        &self,
        config: &Config,
        weight: &Self::Param,
        y: &Self::Matrix<bf16>,
        zxbcdt: &Self::Matrix<bf16>,
    ) -> Result<Self::Matrix<bf16>>;

    /// Writes the batch's keys and values to their pages, then attends
    /// ([`vt_kernels::attention::cache_write`], [`vt_kernels::attention::flash`]).
    fn attention(
        &self,
        config: &Config,
        qkv: Qkv<'_, Self>,
        batch: &Batch,
        block_size: usize,
        cache: &mut Self::KvCache,
    ) -> Result<Self::Matrix<bf16>>;

    /// Chooses experts and orders rows by expert ([`vt_kernels::moe::router`],
    /// [`vt_kernels::moe::permute`]).
    fn route(
        &self,
        config: &Config,
        logits: &Self::Matrix<f32>,
        correction_bias: Option<&Self::Param>,
    ) -> Result<Self::Routing>;

    /// The chosen ids `[total_tokens, top_k]` and their weights, in host memory.
    fn read_routing(&self, routing: &Self::Routing) -> (Vec<u32>, Vec<f32>);

    /// Rows of `x` in the order of experts ([`vt_kernels::moe::gather`]).
    fn gather(&self, x: &Self::Matrix<bf16>, routing: &Self::Routing) -> Result<Self::Matrix<bf16>>;

    /// Each expert's rows through its linear layer.
    fn grouped_linear(
        &self,
        experts: &[&Self::Linear],
        x: &Self::Matrix<bf16>,
        routing: &Self::Routing,
    ) -> Result<Self::Matrix<bf16>>;

    /// Squared ReLU ([`vt_kernels::moe::relu2`]).
    fn relu2(&self, x: &Self::Matrix<bf16>) -> Result<Self::Matrix<bf16>>;

    /// Weighted sum of each token's experts, scaled, plus `shared` ([`vt_kernels::moe::combine`]).
    fn combine(
        &self,
        expert_out: &Self::Matrix<bf16>,
        routing: &Self::Routing,
        shared: Option<&Self::Matrix<bf16>>,
        routed_scaling_factor: f32,
    ) -> Result<Self::Matrix<bf16>>;

    /// `a + b`, rounded once ([`vt_kernels::norm::residual_add`]).
    fn add(&self, a: &Self::Matrix<bf16>, b: &Self::Matrix<bf16>) -> Result<Self::Matrix<bf16>>;
}

/// Arguments that the steps of a Mamba layer share.
pub struct MambaCall<'a, B: Backend + ?Sized> {
    /// Sizes.
    pub config: &'a Config,
    /// The layer's weights.
    pub weights: &'a Mamba<B::Linear, B::Param>,
    /// Output of the input projection, `[total_tokens, z | x | B | C | dt]`.
    pub zxbcdt: &'a B::Matrix<bf16>,
    /// The batch.
    pub batch: &'a Batch,
    /// The layer's states.
    pub cache: &'a mut B::MambaCache,
    /// Where the step writes its rows, `[total_tokens, features]`.
    pub out: &'a mut B::Matrix<bf16>,
}

/// Queries, keys, values and the scales of the cache.
pub struct Qkv<'a, B: Backend + ?Sized> {
    /// Queries, `[total_tokens, num_attention_heads * head_dim]`.
    pub q: &'a B::Matrix<bf16>,
    /// Keys, `[total_tokens, num_key_value_heads * head_dim]`.
    pub k: &'a B::Matrix<bf16>,
    /// Values, as the keys.
    pub v: &'a B::Matrix<bf16>,
    /// Scale of FP8 keys.
    pub k_scale: f32,
    /// Scale of FP8 values.
    pub v_scale: f32,
}
