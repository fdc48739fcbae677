//! Attention over a paged cache of keys and values.

use half::bf16;

use crate::Element;
use crate::format::E4m3;

pub mod cache_write;
pub mod flash;

/// Element of a cache: bf16, or e4m3 with a scale for each layer.
pub trait KvElement: bytemuck::Pod + PartialEq + std::fmt::Debug + Send + Sync {
    /// Whether values are divided by a scale before they are stored.
    const SCALED: bool;

    /// The stored value, exactly, without its scale.
    fn to_bf16(self) -> bf16;

    /// What is stored for `value`: itself, or e4m3 of `value / scale`, to nearest even, saturated at ±448.
    fn quantize(value: bf16, scale: f32) -> Self;
}

impl KvElement for bf16 {
    const SCALED: bool = false;

    fn to_bf16(self) -> bf16 {
        self
    }

    fn quantize(value: bf16, _: f32) -> Self {
        value
    }
}

impl KvElement for E4m3 {
    const SCALED: bool = true;

    fn to_bf16(self) -> bf16 {
        Element::from_f32(self.to_f32())
    }

    fn quantize(value: bf16, scale: f32) -> Self {
        E4m3::from_f32(value.to_f32() / scale)
    }
}

/// A scale is positive and finite; a cache that is not scaled takes 1 alone.
fn check_scale<KV: KvElement>(arg: &'static str, scale: f32) -> crate::Result<()> {
    let (right, expected) = match KV::SCALED {
        true => (scale.is_finite() && scale > 0.0, "a finite number above 0"),
        false => (scale == 1.0, "1 for a bf16 cache"),
    };
    if right { Ok(()) } else { Err(crate::Error::value(arg, scale, expected)) }
}
