//! The formats as types of one byte.

/// Decodes `sign | exponent | mantissa` with `EXP` exponent bits, `MAN` mantissa bits and the given bias, all codes
/// finite. Subnormals are `mantissa · 2^(1 − bias − MAN)`.
#[inline(always)]
fn decode<const EXP: u32, const MAN: u32>(code: u8, bias: i32) -> f32 {
    let magnitude = u32::from(code) & ((1 << (EXP + MAN)) - 1);
    let sign = (u32::from(code) >> (EXP + MAN) & 1) << 31;
    // The fields at their place in an f32 are the value times 2^(bias − 127), subnormals included.
    let scaled = f32::from_bits(magnitude << (23 - MAN));
    let value = scaled * f32::from_bits(((127 + 127 - bias) as u32) << 23);
    f32::from_bits(value.to_bits() | sign)
}

/// Rounds the magnitude of `value` to nearest even on the grid of the format, without sign; NaN and values
/// above `max` give the code of `max`.
#[inline(always)]
fn encode<const MAN: u32>(value: f32, bias: i32, max: f32) -> u32 {
    let magnitude = f32::from_bits(value.to_bits() & 0x7fff_ffff).min(max);
    let bits = magnitude.to_bits();
    let normal = {
        let shift = 23 - MAN;
        let rounded = bits + ((1 << (shift - 1)) - 1) + (bits >> shift & 1);
        (rounded >> shift).wrapping_sub(((127 - bias) as u32) << MAN)
    };
    // Below the smallest normal the grid is fixed: adding 2^23 grid steps leaves the rounded count in the mantissa.
    let anchor = f32::from_bits(((127 + 1 - bias - MAN as i32 + 23) as u32) << 23);
    let subnormal = (magnitude + anchor).to_bits() - anchor.to_bits();
    let smallest_normal = f32::from_bits(((127 + 1 - bias) as u32) << 23);
    if magnitude < smallest_normal { subnormal } else { normal }
}

macro_rules! minifloat {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The code with these bits.
            #[inline(always)]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits & Self::MASK)
            }

            /// The code's bits.
            #[inline(always)]
            pub const fn to_bits(self) -> u8 {
                self.0
            }
        }
    };
}

minifloat! {
    /// FP8 E4M3: sign, 4 exponent bits (bias 7), 3 mantissa bits. No infinity; S.1111.111 is NaN; largest 448.
    E4m3
}
minifloat! {
    /// FP8 E5M2: sign, 5 exponent bits (bias 15), 2 mantissa bits, IEEE infinities and NaN; largest finite 57344.
    E5m2
}
minifloat! {
    /// Unsigned E4M3, the block scale of NVFP4: bit 7 is ignored; 0x7f is NaN; largest 448.
    Ue4m3
}
minifloat! {
    /// Unsigned 8-bit exponent, the block scale of MX formats: 2^(bits − 127); 0xff is NaN.
    Ue8m0
}
minifloat! {
    /// FP4 E2M1: ±{0, 0.5, 1, 1.5, 2, 3, 4, 6} in the low nibble. No infinity, no NaN.
    E2m1
}
minifloat! {
    /// FP6 E2M3: bias 1, largest 7.5. No infinity, no NaN.
    E2m3
}
minifloat! {
    /// FP6 E3M2: bias 3, largest 28. No infinity, no NaN.
    E3m2
}

impl E4m3 {
    const MASK: u8 = 0xff;
    /// The NaN that is stored.
    pub const NAN: Self = Self(0x7f);

    /// Rounds to nearest even, saturating at ±448; NaN gives 0x7f.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Self {
        let code = encode::<3>(value, 7, 448.0) | (value.to_bits() >> 31) << 7;
        Self(if value.is_nan() { 0x7f } else { code as u8 })
    }

    /// The value, exactly; NaN codes give the NaN 0x7fffffff.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let value = decode::<4, 3>(self.0, 7);
        if self.0 & 0x7f == 0x7f { crate::element::NAN_F32 } else { value }
    }
}

impl E5m2 {
    const MASK: u8 = 0xff;

    /// Rounds to nearest even, saturating at ±57344 (infinities too); NaN gives 0x7f.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Self {
        let code = encode::<2>(value, 15, 57344.0) | (value.to_bits() >> 31) << 7;
        Self(if value.is_nan() { 0x7f } else { code as u8 })
    }

    /// The value, exactly; NaN codes give the NaN 0x7fffffff.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let sign = u32::from(self.0 >> 7) << 31;
        match self.0 & 0x7f {
            0x7c => f32::from_bits(f32::INFINITY.to_bits() | sign),
            0x7d.. => crate::element::NAN_F32,
            _ => decode::<5, 2>(self.0, 15),
        }
    }
}

impl Ue4m3 {
    const MASK: u8 = 0xff;

    /// Rounds to nearest even, saturating at 448; negative values give 0, NaN gives 0x7f.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Self {
        let code = if value > 0.0 { encode::<3>(value, 7, 448.0) } else { 0 };
        Self(if value.is_nan() { 0x7f } else { code as u8 })
    }

    /// The value, exactly, bit 7 ignored; 0x7f gives the NaN 0x7fffffff.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        E4m3(self.0 & 0x7f).to_f32()
    }
}

impl Ue8m0 {
    const MASK: u8 = 0xff;

    /// The power of two nearest in ratio above or equal half-way in value: rounds to nearest, ties to the even
    /// exponent code, saturating at 2^-127 and 2^127. Zero and negative values give 2^-127, NaN gives 0xff.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Self {
        if value.is_nan() {
            return Self(0xff);
        }
        let bits = value.to_bits();
        if bits >> 31 == 1 || bits < 0x0040_0000 {
            return Self(0);
        }
        // A subnormal's exponent field is 0 as that of 2^-127 is, so one rule rounds both.
        let exponent = if bits < 0x0080_0000 {
            u32::from(bits > 0x0060_0000)
        } else {
            (bits + 0x003f_ffff + (bits >> 23 & 1)) >> 23
        };
        Self(exponent.min(254) as u8)
    }

    /// 2^(bits − 127), exactly; 0xff gives the NaN 0x7fffffff.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        match self.0 {
            0 => f32::from_bits(0x0040_0000),
            0xff => crate::element::NAN_F32,
            exponent => f32::from_bits(u32::from(exponent) << 23),
        }
    }
}

impl E2m1 {
    const MASK: u8 = 0x0f;

    /// Rounds to nearest even, saturating at ±6; NaN gives +6, as the hardware conversion does.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Self {
        let sign = if value.is_nan() { 0 } else { value.to_bits() >> 31 };
        Self((encode::<1>(value, 1, 6.0) | sign << 3) as u8)
    }

    /// The value, exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        decode::<2, 1>(self.0, 1)
    }
}

impl E2m3 {
    const MASK: u8 = 0x3f;

    /// Rounds to nearest even, saturating at ±7.5; NaN gives +7.5.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Self {
        let sign = if value.is_nan() { 0 } else { value.to_bits() >> 31 };
        Self((encode::<3>(value, 1, 7.5) | sign << 5) as u8)
    }

    /// The value, exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        decode::<2, 3>(self.0, 1)
    }
}

impl E3m2 {
    const MASK: u8 = 0x3f;

    /// Rounds to nearest even, saturating at ±28; NaN gives +28.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Self {
        let sign = if value.is_nan() { 0 } else { value.to_bits() >> 31 };
        Self((encode::<2>(value, 3, 28.0) | sign << 5) as u8)
    }

    /// The value, exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        decode::<3, 2>(self.0, 3)
    }
}
