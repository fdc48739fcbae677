//! Writes keys and values of new tokens to their places in a paged cache.
//!
//! Row `slots[t] = block · block_size + offset` of the cache takes `k[t]` and `v[t]`: bf16 as they are, e4m3 as
//! `e4m3(k / k_scale)`, a quotient in f32 rounded to nearest even and saturated at ±448. A slot of −1 is skipped.
//!
//! # Shapes and layouts
//! `k`, `v`: `[total_tokens, n_kv_heads · head_dim]` bf16, strided; `slots`: `[total_tokens]`; `k_cache`,
//! `v_cache`: `[n_blocks · block_size, n_kv_heads · head_dim]`, strided, bf16 or e4m3.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! ```
//! use half::bf16;
//! use vt_kernels::{Arch, Rows, RowsMut, attention::cache_write, format::E4m3};
//! let plan = cache_write::Plan::new(Arch::Sm90a, cache_write::Shape { n_kv_heads: 1, head_dim: 1 })?;
//! let k = [bf16::from_f32(3.0)];
//! let (mut keys, mut values) = ([E4m3::default(); 2], [E4m3::default(); 2]);
//! let (row, keys_view) = (Rows::new("k", &k, 1, 1)?, &mut RowsMut::new("k_cache", &mut keys, 2, 1)?);
//! plan.reference(row, row, &[1], keys_view, &mut RowsMut::new("v_cache", &mut values, 2, 1)?, 2.0, 1.0)?;
//! assert_eq!((keys[1].to_f32(), values[1].to_f32()), (1.5, 3.0));
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use half::bf16;

use super::{KvElement, check_scale};
use crate::{Arch, Error, Result, Rows, RowsMut, Unsupported, arch, checks};

/// Sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Heads of keys and values.
    pub n_kv_heads: usize,
    /// Elements of a head.
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
        if shape.n_kv_heads.checked_mul(shape.head_dim).is_none_or(|cols| cols == 0) {
            let got = format!("n_kv_heads {}, head_dim {}", shape.n_kv_heads, shape.head_dim);
            return Err(Error::value("shape", got, "each at least 1, of a size that fits memory"));
        }
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
    /// Shapes that do not fit; a slot out of range or named twice; a scale that is not positive and finite,
    /// or not 1 for a bf16 cache. Nothing is written then.
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
        k.expect("k", k.rows(), cols, "[total_tokens, n_kv_heads * head_dim]")?;
        v.expect("v", k.rows(), cols, "[total_tokens, n_kv_heads * head_dim]")?;
        checks::per("slots", slots, k.rows(), "total_tokens")?;
        let rows = k_cache.rows();
        k_cache.expect("k_cache", rows, cols, "[n_blocks * block_size, n_kv_heads * head_dim]")?;
        v_cache.expect("v_cache", rows, cols, "[n_blocks * block_size, n_kv_heads * head_dim]")?;
        check_scale::<KV>("k_scale", k_scale)?;
        check_scale::<KV>("v_scale", v_scale)?;
        let mut taken = std::collections::HashSet::new();
        for (t, &slot) in slots.iter().enumerate().filter(|(_, slot)| **slot != -1) {
            if !usize::try_from(slot).is_ok_and(|slot| slot < rows) {
                let expected = format!("-1 or below {rows}, the rows of the cache");
                return Err(Error::value("slots", format!("{slot} at {t}"), expected));
            }
            if !taken.insert(slot) {
                return Err(Error::value("slots", format!("{slot} again at {t}"), "each slot once"));
            }
        }
        reference::run(k, slots, k_cache, k_scale);
        reference::run(v, slots, v_cache, v_scale);
        Ok(())
    }
}
