//! Operand formats on raw bits, decoded as the units see them.

use super::unit::Instruction;
use crate::Arch;

/// Format of an operand or accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE binary32: accumulators only.
    F32,
    /// 19 bits in the high end of a word; the unit ignores the low 13.
    Tf32,
    /// bfloat16.
    Bf16,
    /// IEEE binary16.
    F16,
    /// FP8 with 4 exponent bits; S.1111.111 is NaN, there is no infinity.
    E4m3,
    /// FP8 with 5 exponent bits, infinities and NaN as IEEE has them.
    E5m2,
    /// FP6 with 3 exponent bits, every code finite.
    E3m2,
    /// FP6 with 2 exponent bits, every code finite.
    E2m3,
    /// FP4, every code finite.
    E2m1,
    /// Scale 2^(x - 127); 0xff is NaN.
    Ue8m0,
    /// Scale: e4m3 whose sign bit is ignored.
    Ue4m3,
}

/// A decoded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// `sig · 2^(exp - frac)`; a subnormal has the smallest exponent of its format, not renormalised.
    Finite {
        /// Signed significand.
        sig: i64,
        /// Its fraction bits.
        frac: i32,
        /// Exponent.
        exp: i32,
    },
    /// An infinity.
    Infinite {
        /// Its sign.
        negative: bool,
    },
    /// Not a number.
    Nan,
}

impl Number {
    /// The sign; NaN and zero are not negative.
    pub fn negative(self) -> bool {
        match self {
            Number::Finite { sig, .. } => sig < 0,
            Number::Infinite { negative } => negative,
            Number::Nan => false,
        }
    }
}

impl Format {
    /// Decodes the low bits of `bits`; what lies above the format's width is ignored.
    pub fn decode(self, bits: u32) -> Number {
        // Exponent bits, fraction bits.
        let (width, frac) = match self {
            Format::F32 => (8, 23),
            Format::Tf32 => return Format::F32.decode(bits & !0x1fff),
            Format::Bf16 => (8, 7),
            Format::F16 => (5, 10),
            Format::E4m3 => (4, 3),
            Format::E5m2 => (5, 2),
            Format::E3m2 => (3, 2),
            Format::E2m3 => (2, 3),
            Format::E2m1 => (2, 1),
            Format::Ue4m3 => return Format::E4m3.decode(bits & 0x7f),
            Format::Ue8m0 if bits & 0xff == 0xff => return Number::Nan,
            Format::Ue8m0 => return Number::Finite { sig: 1, frac: 0, exp: (bits & 0xff) as i32 - 127 },
        };
        let negative = bits >> (width + frac) & 1 == 1;
        let field = bits >> frac & ((1 << width) - 1);
        let fraction = bits & ((1 << frac) - 1);
        let last = field == (1 << width) - 1;
        match self {
            Format::F32 | Format::Bf16 | Format::F16 | Format::E5m2 if last => {
                return if fraction == 0 { Number::Infinite { negative } } else { Number::Nan };
            }
            Format::E4m3 if last && fraction == 7 => return Number::Nan,
            _ => {}
        }
        let sig = i64::from(fraction | u32::from(field != 0) << frac);
        let bias = (1 << (width - 1)) - 1;
        Number::Finite { sig: if negative { -sig } else { sig }, frac, exp: field.max(1) as i32 - bias }
    }

    /// Whether `instruction` takes operands of this format on `arch`.
    pub(super) fn feeds(self, instruction: Instruction, arch: Arch) -> bool {
        use Instruction::*;
        match instruction {
            MmaK8 | MmaK16 | WgmmaK16 => matches!(self, Format::Bf16 | Format::F16),
            MmaTf32K4 | MmaTf32K8 => self == Format::Tf32,
            MmaFp4K64 => self == Format::E2m1,
            MmaFp8K32 if arch == Arch::Sm121a => self.fits_byte(),
            MmaMxf8K32 => self.fits_byte(),
            MmaFp8K16 | MmaFp8K32 | WgmmaFp8K32 => matches!(self, Format::E4m3 | Format::E5m2),
        }
    }

    fn fits_byte(self) -> bool {
        matches!(self, Format::E4m3 | Format::E5m2 | Format::E3m2 | Format::E2m3 | Format::E2m1)
    }
}
