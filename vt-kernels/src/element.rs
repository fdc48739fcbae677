//! Element types of activations: f32, bf16, f16.

use half::{bf16, f16};

/// Type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE binary16.
    F16,
    /// FP8 E4M3 (finite; S.1111.111 is NaN), one byte.
    E4m3,
    /// FP4 E2M1, two to a byte, low nibble first.
    E2m1x2,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    I32,
}

/// A floating-point element that kernels load widened to f32 and store rounded.
pub trait Element: bytemuck::Pod + PartialEq + std::fmt::Debug + Send + Sync {
    /// The tag of this type.
    const DTYPE: DType;

    /// Widens to f32, exactly.
    fn to_f32(self) -> f32;

    /// Rounds to nearest even; NaN becomes the one NaN of the type
    /// (f32 0x7fffffff, bf16 0x7fff, f16 0x7fff). Overflow gives infinity.
    fn from_f32(value: f32) -> Self;
}

/// The NaN that device f32 arithmetic returns and every kernel stores.
pub const NAN_F32: f32 = f32::from_bits(0x7fff_ffff);

impl Element for f32 {
    const DTYPE: DType = DType::F32;

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        if value.is_nan() { NAN_F32 } else { value }
    }
}

impl Element for bf16 {
    const DTYPE: DType = DType::Bf16;

    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        bf16::from_bits(if value.is_nan() { 0x7fff } else { rounded as u16 })
    }
}

impl Element for f16 {
    const DTYPE: DType = DType::F16;

    #[inline(always)]
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        if value.is_nan() { f16::from_bits(0x7fff) } else { f16::from_f32(value) }
    }
}
