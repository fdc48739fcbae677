//! Attention over a paged cache of keys and values.
//!
//! A cache is `[n_blocks * block_size, n_kv_heads * head_dim]`: slot `block * block_size + offset` is one
//! token. Keys and values are bf16, or e4m3 codes that stand for `code * scale` with one scale to a cache.

pub mod cache_write;
pub mod flash;

use half::bf16;

use crate::format::E4m3;
use crate::{Element, Error, Result};

/// What a cache holds.
pub trait KvElement: bytemuck::Pod + Send + Sync {
    /// Whether an element stands for its value times the cache's scale; otherwise the scale is 1.
    const SCALED: bool;

    /// The element as an operand of an MMA, exactly and without the scale; NaN becomes 0x7fff.
    fn to_bf16(self) -> bf16;

    /// The element nearest to `value / scale`, ties to even, saturating in e4m3; NaN becomes the one NaN of
    /// the type.
    fn quantize(value: f32, scale: f32) -> Self;
}

impl KvElement for bf16 {
    const SCALED: bool = false;

    #[inline(always)]
    fn to_bf16(self) -> bf16 {
        <bf16 as Element>::from_f32(Element::to_f32(self))
    }

    #[inline(always)]
    fn quantize(value: f32, scale: f32) -> Self {
        Element::from_f32(value / scale)
    }
}

impl KvElement for E4m3 {
    const SCALED: bool = true;

    #[inline(always)]
    fn to_bf16(self) -> bf16 {
        Element::from_f32(self.to_f32())
    }

    #[inline(always)]
    fn quantize(value: f32, scale: f32) -> Self {
        E4m3::from_f32(value / scale)
    }
}

/// `scale` is positive and finite, and 1 for a cache that has none.
fn check_scale<KV: KvElement>(arg: &'static str, scale: f32) -> Result<()> {
    if !(scale.is_finite() && scale > 0.0) {
        return Err(Error::value(arg, scale, "a finite number above 0"));
    }
    if !KV::SCALED && scale != 1.0 {
        return Err(Error::value(arg, scale, "1 for a cache of bf16"));
    }
    Ok(())
}

/// Columns of a cache, or the error that names what does not fit.
fn check_heads(n_kv_heads: usize, head_dim: usize) -> Result<usize> {
    if n_kv_heads == 0 {
        return Err(Error::value("n_kv_heads", 0, "at least 1"));
    }
    if !(8..=256).contains(&head_dim) || !head_dim.is_multiple_of(8) {
        return Err(Error::value("head_dim", head_dim, "a multiple of 8 from 8 to 256"));
    }
    let cols = n_kv_heads.checked_mul(head_dim);
    cols.ok_or_else(|| Error::value("n_kv_heads", n_kv_heads, "n_kv_heads * head_dim to fit a usize"))
}
