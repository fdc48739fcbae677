//! Operands decoded to signed significands and exponents of 16 bits.

use half::{bf16, f16};

use crate::format::E4m3;
use crate::mma::Format;

/// Output columns that run side by side.
pub(crate) const LANES: usize = 32;

/// Exponent of a zero: a sum of two is below every floor and fits 16 bits.
pub(super) const NONE: i16 = -8192;

/// How operands with sign, exponent and fraction in at most 16 bits are read.
pub(crate) trait Code {
    /// Type of an operand.
    type Source: Copy;
    /// Its format in the definition.
    const FORMAT: Format;
    /// Fraction bits.
    const FRAC: u32;
    /// Exponent bias.
    const BIAS: i16;
    /// The smallest magnitude that is NaN or infinite.
    const SPECIAL: u16;
    /// Magnitude in the low bits, sign in bit 15; zero is 0.
    fn code(x: Self::Source) -> u16;
    /// Raw bits.
    fn bits(x: Self::Source) -> u32;
}

impl Code for bf16 {
    type Source = bf16;
    const FORMAT: Format = Format::Bf16;
    const FRAC: u32 = 7;
    const BIAS: i16 = 127;
    const SPECIAL: u16 = 0x7f80;
    #[inline(always)]
    fn code(x: Self) -> u16 {
        x.to_bits()
    }
    fn bits(x: Self) -> u32 {
        u32::from(x.to_bits())
    }
}

impl Code for f16 {
    type Source = f16;
    const FORMAT: Format = Format::F16;
    const FRAC: u32 = 10;
    const BIAS: i16 = 15;
    const SPECIAL: u16 = 0x7c00;
    #[inline(always)]
    fn code(x: Self) -> u16 {
        x.to_bits()
    }
    fn bits(x: Self) -> u32 {
        u32::from(x.to_bits())
    }
}

/// E4M3 as a unit for FP8 reads it.
#[derive(Debug)]
pub(crate) struct Native;

impl Code for Native {
    type Source = E4m3;
    const FORMAT: Format = Format::E4m3;
    const FRAC: u32 = 3;
    const BIAS: i16 = 7;
    const SPECIAL: u16 = 0x7f;
    #[inline(always)]
    fn code(x: E4m3) -> u16 {
        let bits = u16::from(x.to_bits());
        (bits & 0x7f) | (bits & 0x80) << 8
    }
    fn bits(x: E4m3) -> u32 {
        u32::from(x.to_bits())
    }
}

/// E4M3 turned into f16, exactly: its subnormals are normal there.
#[derive(Debug)]
pub(crate) struct AsF16;

impl Code for AsF16 {
    type Source = E4m3;
    const FORMAT: Format = Format::E4m3;
    const FRAC: u32 = f16::FRAC;
    const BIAS: i16 = f16::BIAS;
    const SPECIAL: u16 = f16::SPECIAL;
    #[inline(always)]
    fn code(x: E4m3) -> u16 {
        F16_OF_E4M3[usize::from(x.to_bits())]
    }
    fn bits(x: E4m3) -> u32 {
        u32::from(x.to_bits())
    }
}

static F16_OF_E4M3: [u16; 256] = {
    let mut table = [0; 256];
    let mut code = 0;
    while code < 256 {
        let magnitude = code as u16 & 0x7f;
        // e4m3 is f16 with a bias of 7 for 15 and a shorter fraction, but for its subnormals.
        table[code] = (code as u16 & 0x80) << 8
            | match magnitude {
                0 => 0,
                0x7f => 0x7fff,
                1..8 => {
                    let lead = 15 - magnitude.leading_zeros() as u16;
                    (lead + 15 - 9) << 10 | (magnitude << (10 - lead)) & 0x3ff
                }
                _ => (magnitude << 7) + (8 << 10),
            };
        code += 1;
    }
    table
};

/// Significand shifted up by `up`, exponent, and whether the code is NaN or infinite.
#[inline(always)]
pub(super) fn decode<T: Code>(code: u16, up: u32) -> (i16, i16, bool) {
    let magnitude = code & 0x7fff;
    let field = magnitude >> T::FRAC;
    let hidden = u16::from(field != 0) << T::FRAC;
    let sig = (((magnitude & ((1 << T::FRAC) - 1)) | hidden) << up) as i16;
    let sign = (code as i16) >> 15;
    let exp = if magnitude == 0 { NONE } else { field.max(1) as i16 - T::BIAS };
    ((sig ^ sign).wrapping_sub(sign), exp, magnitude >= T::SPECIAL)
}

/// Up to [`LANES`] columns of a block of `k`, `k`-major.
#[derive(Debug)]
pub(crate) struct Tile {
    pub(super) sig: Vec<[i16; LANES]>,
    pub(super) exp: Vec<[i16; LANES]>,
    /// Columns that hold NaN or infinity.
    pub(crate) special: [bool; LANES],
}

impl Tile {
    /// A tile of zeros.
    pub(crate) fn new() -> Tile {
        Tile { sig: Vec::new(), exp: Vec::new(), special: [false; LANES] }
    }

    /// Decodes `codes`.
    #[inline(always)]
    pub(crate) fn decode<T: Code>(&mut self, codes: &[[u16; LANES]], up: u32) {
        self.sig.resize(codes.len(), [0; LANES]);
        self.exp.resize(codes.len(), [0; LANES]);
        let mut special = [0u16; LANES];
        for ((codes, sig), exp) in codes.iter().zip(&mut self.sig).zip(&mut self.exp) {
            for l in 0..LANES {
                let (s, e, odd) = decode::<T>(codes[l], up);
                (sig[l], exp[l]) = (s, e);
                special[l] |= u16::from(odd);
            }
        }
        self.special = special.map(|odd| odd != 0);
    }
}

/// A block of `k` of one row of `a`.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) sig: Vec<i16>,
    pub(crate) exp: Vec<i16>,
    /// Whether it holds NaN or infinity.
    pub(crate) special: bool,
}

impl Row {
    /// A row of nothing.
    pub(crate) fn new() -> Row {
        Row { sig: Vec::new(), exp: Vec::new(), special: false }
    }

    /// Decodes `codes`.
    #[inline(always)]
    pub(crate) fn decode<T: Code>(&mut self, codes: &[u16], up: u32) {
        self.sig.resize(codes.len(), 0);
        self.exp.resize(codes.len(), 0);
        self.special = false;
        for ((&code, sig), exp) in codes.iter().zip(&mut self.sig).zip(&mut self.exp) {
            let (s, e, odd) = decode::<T>(code, up);
            (*sig, *exp) = (s, e);
            self.special |= odd;
        }
    }
}
