//! New keys and values into their slots of a paged cache.
//!
//! `k_cache[slots[t]] = quantize(k[t], k_scale)`, and `v` likewise. Slot −1 (a padding token) writes nothing.
//!
//! # Order of reduction
//! None: every element stands alone. A slot named twice is an error, so that the result has no order.
//!
//! # Shapes and layouts
//! | argument | shape | type |
//! |---|---|---|
//! | `k`, `v` | `[n_tokens, n_kv_heads * head_dim]`, strided | bf16 |
//! | `slots` | `[n_tokens]`: `block * block_size + offset`, or −1 | i64 |
//! | `k_cache`, `v_cache` | `[n_blocks * block_size, n_kv_heads * head_dim]`, strided | bf16 or e4m3 |
//! | `k_scale`, `v_scale` | one number | f32 |
//!
//! # Rounding
//! bf16: bits as they are (NaN becomes 0x7fff); the scales must be 1. e4m3: the f32 quotient `k / k_scale`
//! rounded to nearest even, saturated at ±448 (infinities too); NaN becomes 0x7f.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! vLLM `reshape_and_cache_flash`.
//!
//! ```
//! use half::bf16;
//! use vt_kernels::{Arch, Rows, RowsMut, attention::cache_write, format::E4m3};
//! let plan = cache_write::Plan::new(Arch::Sm90a, cache_write::Shape { n_kv_heads: 1, head_dim: 8 })?;
//! let k = [bf16::from_f32(3.0); 16];
//! let (mut k_cache, mut v_cache) = ([E4m3::default(); 32], [E4m3::default(); 32]);
//! plan.reference(
//!     Rows::new("k", &k, 2, 8)?,
//!     Rows::new("v", &k, 2, 8)?,
//!     &[-1, 2],
//!     &mut RowsMut::new("k_cache", &mut k_cache, 4, 8)?,
//!     &mut RowsMut::new("v_cache", &mut v_cache, 4, 8)?,
//!     0.5,
//!     1.0,
//! )?;
//! assert_eq!((k_cache[0].to_f32(), k_cache[16].to_f32(), v_cache[16].to_f32()), (0.0, 6.0, 3.0));
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use half::bf16;

use super::{KvElement, check_heads, check_scale};
use crate::{Arch, Error, Result, Rows, RowsMut, Unsupported, arch, checks};

/// Sizes of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Heads of keys and of values.
    pub n_kv_heads: usize,
    /// Elements in a head: a multiple of 8 from 8 to 256.
    pub head_dim: usize,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("attention/cache_write", arch)
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        check_heads(shape.n_kv_heads, shape.head_dim)?;
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Writes on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; a slot below −1, outside the cache or named twice; a scale that is not positive
    /// and finite, or not 1 for bf16. Nothing is written then.
    #[allow(clippy::too_many_arguments)]
    pub fn reference<KV: KvElement>(
        &self,
        k: Rows<'_, bf16>,
        v: Rows<'_, bf16>,
        slots: &[i64],
        k_cache: &mut RowsMut<'_, KV>,
        v_cache: &mut RowsMut<'_, KV>,
        k_scale: f32,
        v_scale: f32,
    ) -> Result<()> {
        let cols = self.shape.n_kv_heads * self.shape.head_dim;
        let (tokens, n_slots) = (k.rows(), k_cache.rows());
        k.expect("k", tokens, cols, "[n_tokens, n_kv_heads * head_dim]")?;
        v.expect("v", tokens, cols, "[n_tokens, n_kv_heads * head_dim]")?;
        checks::per("slots", slots, tokens, "n_tokens")?;
        k_cache.expect("k_cache", n_slots, cols, "[n_slots, n_kv_heads * head_dim]")?;
        v_cache.expect("v_cache", n_slots, cols, "[n_slots, n_kv_heads * head_dim]")?;
        check_scale::<KV>("k_scale", k_scale)?;
        check_scale::<KV>("v_scale", v_scale)?;
        check_slots(slots, n_slots)?;
        reference::run(k, slots, k_cache, k_scale);
        reference::run(v, slots, v_cache, v_scale);
        Ok(())
    }
}

/// Slots are −1 or below `n_slots`, and none is named twice. The cache may be far larger than the batch.
fn check_slots(slots: &[i64], n_slots: usize) -> Result<()> {
    let known = |slot: i64| slot == -1 || usize::try_from(slot).is_ok_and(|slot| slot < n_slots);
    if let Some(at) = slots.iter().position(|&slot| !known(slot)) {
        let expected = format!("-1 or below the cache's {n_slots} slots");
        return Err(Error::value("slots", format!("{} at {at}", slots[at]), expected));
    }
    let mut sorted = slots.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1] && pair[0] != -1) {
        Some(pair) => Err(Error::value("slots", format!("{} twice", pair[0]), "each slot once")),
        None => Ok(()),
    }
}
