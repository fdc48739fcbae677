//! Attention over the paged cache by its references.

use std::ops::Range;

use half::bf16;
use vt_kernels::attention::{KvElement, cache_write, flash};
use vt_kernels::format::E4m3;
use vt_kernels::{Arch, Rows};

use crate::backend::cpu::Cpu;
use crate::backend::{CacheSize, Qkv};
use crate::batch::Batch;
use crate::config::Config;
use crate::error::Result;
use crate::tensor::Matrix;

/// Keys and values of one attention layer, `[kv_blocks * block_size, num_key_value_heads * head_dim]` each.
#[derive(Clone, Debug)]
pub enum KvCache {
    /// As the model's dtype.
    Bf16 {
        /// Keys.
        k: Matrix<bf16>,
        /// Values.
        v: Matrix<bf16>,
    },
    /// e4m3, to be multiplied by the layer's scales.
    Fp8 {
        /// Keys.
        k: Matrix<E4m3>,
        /// Values.
        v: Matrix<E4m3>,
    },
}

impl KvCache {
    pub(super) fn new(config: &Config, size: &CacheSize, fp8: bool) -> Result<Self> {
        // A product beyond memory is refused with the rest of the size.
        let (rows, cols) = (size.kv_blocks.saturating_mul(size.block_size), config.kv_dim());
        Ok(if fp8 {
            let zeros = || Matrix::try_filled("kv_blocks * block_size", E4m3::default(), rows, cols);
            KvCache::Fp8 { k: zeros()?, v: zeros()? }
        } else {
            let zeros = || Matrix::try_filled("kv_blocks * block_size", bf16::ZERO, rows, cols);
            KvCache::Bf16 { k: zeros()?, v: zeros()? }
        })
    }

    pub(super) fn clear(&mut self, rows: Range<usize>) {
        match self {
            KvCache::Bf16 { k, v } => [k, v].map(|m| clear(m, &rows, bf16::ZERO)),
            KvCache::Fp8 { k, v } => [k, v].map(|m| clear(m, &rows, E4m3::default())),
        };
    }
}

fn clear<T: Copy>(matrix: &mut Matrix<T>, rows: &Range<usize>, zero: T) {
    let cols = matrix.cols();
    matrix.data_mut()[rows.start * cols..rows.end * cols].fill(zero);
}

pub(super) fn attention(
    arch: Arch,
    config: &Config,
    qkv: &Qkv<'_, Cpu>,
    batch: &Batch,
    block_size: usize,
    cache: &mut KvCache,
) -> Result<Matrix<bf16>> {
    match cache {
        KvCache::Bf16 { k, v } => {
            let qkv = Qkv { k_scale: 1.0, v_scale: 1.0, ..*qkv };
            attend(arch, config, &qkv, batch, block_size, k, v)
        }
        KvCache::Fp8 { k, v } => attend(arch, config, qkv, batch, block_size, k, v),
    }
}

fn attend<T: KvElement>(
    arch: Arch,
    config: &Config,
    qkv: &Qkv<'_, Cpu>,
    batch: &Batch,
    block_size: usize,
    k_cache: &mut Matrix<T>,
    v_cache: &mut Matrix<T>,
) -> Result<Matrix<bf16>> {
    let (n_kv_heads, head_dim) = (config.num_key_value_heads, config.head_dim);
    let shape = cache_write::Shape { n_kv_heads, head_dim };
    cache_write::Plan::new(arch, shape)?.reference(
        qkv.k.view("k")?,
        qkv.v.view("v")?,
        &batch.kv_slots,
        &mut k_cache.view_mut("k_cache")?,
        &mut v_cache.view_mut("v_cache")?,
        qkv.k_scale,
        qkv.v_scale,
    )?;
    let shape = flash::Shape {
        n_heads: config.num_attention_heads,
        n_kv_heads,
        head_dim,
        block_size,
        window: config.sliding_window,
    };
    let inputs = flash::Inputs {
        q: qkv.q.view("q")?,
        k_cache: k_cache.view("k_cache")?,
        v_cache: v_cache.view("v_cache")?,
        block_table: Rows::new("block_table", &batch.block_table, batch.n_seqs(), batch.max_blocks)?,
        cu_seqlens: &batch.cu_seqlens,
        seq_lens: &batch.seq_lens,
        softmax_scale: (1.0 / (head_dim as f64).sqrt()) as f32,
        k_scale: qkv.k_scale,
        v_scale: qkv.v_scale,
    };
    let mut out = Matrix::zeros(qkv.q.rows(), qkv.q.cols());
    flash::Plan::new(arch, shape)?.reference(&inputs, &mut out.view_mut("out")?)?;
    Ok(out)
}
