//! Model of the tensor-core MMA instructions, bit for bit.
//!
//! An instruction cuts its `k` into steps of `L` products. A step adds `L` products and the accumulator at
//! once: each is aligned to the largest exponent among them, cut toward zero `F` fraction bits below it, the
//! cut terms are added exactly and the sum is rounded once ([`step`] is the definition). The result is the
//! accumulator of the next step. [`Unit`] is one row of this table; [`fold`] runs whole matrices through one.
//!
//! | instruction | chip | `L` | `F` | result | `E0` | evidence |
//! |---|---|---|---|---|---|---|
//! | `mma` m16n8k16, m16n8k8 bf16/f16 | sm_80, sm_89 | 8 | 24 | f32, toward zero | -132 | literature |
//! | `mma` m16n8k16 bf16/f16 | sm_90a | 16 | 25 | f32, toward zero | -133 | **measured** |
//! | `mma` m16n8k16 bf16/f16 | sm_121a | 16 | 25 | f32, toward zero | -133 | literature |
//! | `mma` m16n8k8 bf16/f16 | sm_90a, sm_121a | 8 | 25 | f32, toward zero | -133 | **measured** (sm_90a) |
//! | the same, f16 accumulator | sm_80, sm_89; sm_90a, sm_121a | as above | 24; 25 | f16, to nearest even | -20; -21 | **measured** (sm_90a) |
//! | `mma` tf32 | sm_80, sm_89; sm_90a, sm_121a | 4; 8 | 24; 25 | f32, toward zero | -132; -133 | **measured** (sm_90a) |
//! | `wgmma` k16 bf16/f16 | sm_90a | 16 | 25 | f32, toward zero | -133 | **measured** (bf16) |
//! | `wgmma` k32 e4m3/e5m2 | sm_90a | 32 | 13 | 13 fraction bits, toward zero | -133 | **measured** (e4m3) |
//! | `mma` fp8 k16, k32 | sm_89 | 16 | 13 | 13 fraction bits, toward zero | -132 | literature |
//! | `mma` fp8 k16, k32 | sm_90a | two f16 `mma` from zero | 25 | f32, then added to `c` to nearest even | -133 | **measured** |
//! | `wgmma`, `mma` fp8, f16 accumulator | as above and below | as there | as there | f16, to nearest even | -21, sm_89 -20 | **measured** (`mma` sm_90a) |
//! | `mma` fp8, fp6, fp4 in bytes, k16, k32 | sm_121a | 16, 32 | 25 | f32, toward zero | -133 | literature |
//! | `mma` mxf8f6f4, ue8m0 scales | sm_121a | 32 | 25 | f32, toward zero | -133 | literature |
//! | `mma` mxf4nvf4, mxf4 | sm_121a | 4 groups of 16 | 35 | f32, toward zero | -139 | literature |
//!
//! *Measured*: equal to an H200 in every output compared: bf16 k16 and `wgmma` 20,000 on each of three distributions, the
//! other `mma` 3,000 of each type. *Literature*:
//! published measurements, and MMA-Sim 2.1.1, which the tests compare with. Nobody has published a check of
//! a GB10; its rows are those of sm_120, which has the same opcodes.
//!
//! *Special values.* A NaN operand, 0 × infinity, or infinities of both signs give the one NaN (0x7fffffff,
//! f16 0x7fff). Infinities of one sign give that infinity, and so does overflow. Subnormals are kept
//! everywhere. A zero result is +0, a negative sum that truncates to zero, too (measured).
//!
//! *Sources.* MMA-Sim (arXiv 2511.10909); Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores"
//! (arXiv 2512.07004).
//!
//! ```
//! use vt_kernels::Arch;
//! use vt_kernels::mma::{Accumulator, Format, Instruction, Operand, Unit};
//!
//! let unit = Unit::new(Arch::Sm90a, Instruction::MmaK16, Accumulator::F32)?;
//! let one = [0x3f80; 16];
//! let ones = Operand { format: Format::Bf16, bits: &one, scale: None };
//! assert_eq!(unit.dot(ones, ones, 0.5f32.to_bits())?, 16.5f32.to_bits());
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod fast;
pub mod fold;
mod format;
pub mod step;
mod unit;

use half::f16;

pub use format::{Format, Number};
pub use unit::{Accumulator, Evidence, Instruction, Path, Round, Unit};

use crate::{Element, Error, Result};
use step::Term;

/// Which instruction multiplies e4m3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fp8Arm {
    /// `wgmma.m64nNk32`: sm_90a.
    Wgmma,
    /// `mma.sync.m16n8k32`: sm_89, sm_90a (where it runs as f16), sm_121a.
    MmaSync,
}

/// A vector along `k`, as raw bits.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Format of `bits`.
    pub format: Format,
    /// One value to a word, in its low bits.
    pub bits: &'a [u32],
    /// Format and bytes of the block scales, equally many values to each.
    pub scale: Option<(Format, &'a [u8])>,
}

impl Unit {
    /// `c` + `a` · `b`, folded over ascending `k` in steps of this unit: bits of the accumulator.
    ///
    /// `a` and `b` are `[K]`, `K` a multiple of [`Unit::k`]; a shorter vector is padded with zeros by the
    /// caller. `c` is an f32, or an f16 in the low half. Block scales are one to 32 values for
    /// [`Instruction::MmaMxf8K32`], one to 16 or 32 for [`Instruction::MmaFp4K64`], and absent otherwise.
    ///
    /// # Errors
    /// A length, format or scale that the instruction does not take.
    pub fn dot(&self, a: Operand<'_>, b: Operand<'_>, c: u32) -> Result<u32> {
        let block = self.check("a", &a)?;
        if self.check("b", &b)? != block || a.bits.len() != b.bits.len() {
            return Err(Error::shape("b", &[b.bits.len()], format!("[K] = [{}], scaled as a", a.bits.len())));
        }
        let blocks = (0..a.bits.len()).step_by(self.k);
        Ok(blocks.fold(c, |c, at| match self.path {
            Path::Fused => self.fused(&a, &b, block, at, c),
            Path::Grouped => self.grouped(&a, &b, block, at, c),
            Path::TwoHalves => self.two_halves(&a, &b, at, c),
        }))
    }

    /// Values to a scale; 0 where there are no scales.
    fn check(&self, arg: &'static str, x: &Operand<'_>) -> Result<usize> {
        let len = x.bits.len();
        if !len.is_multiple_of(self.k) {
            return Err(Error::shape(arg, &[len], format!("[K], K a multiple of {}", self.k)));
        }
        let value = |got: String| Error::value(arg, got, format!("what {} takes", self.instruction));
        if !x.format.feeds(self.instruction, self.arch) {
            return Err(value(format!("{:?}", x.format)));
        }
        let scales = x.scale.map(|(format, bytes)| (format, bytes.len()));
        match (self.instruction, scales) {
            (Instruction::MmaMxf8K32, Some((Format::Ue8m0, n))) if n * 32 == len => Ok(32),
            (Instruction::MmaFp4K64, Some((Format::Ue8m0 | Format::Ue4m3, n))) if n * 16 == len => Ok(16),
            (Instruction::MmaFp4K64, Some((Format::Ue8m0, n))) if n * 32 == len => Ok(32),
            (Instruction::MmaMxf8K32 | Instruction::MmaFp4K64, _) => Err(value(format!("scales {scales:?}"))),
            (_, None) => Ok(0),
            (_, Some(_)) => Err(value(format!("scales {scales:?}"))),
        }
    }

    fn fused(&self, a: &Operand<'_>, b: &Operand<'_>, block: usize, at: usize, c: u32) -> u32 {
        (at..at + self.k).step_by(self.products).fold(c, |c, at| {
            let (scale_a, scale_b) = (a.scale_of(at, block), b.scale_of(at, block));
            let scale = match (scale_a, scale_b) {
                (Number::Finite { exp: e, .. }, Number::Finite { exp: f, .. }) => e + f,
                _ => return self.round.nan(),
            };
            let products = (at..at + self.products).map(|k| Term::product(a.at(k), b.at(k), scale));
            self.step(products, c)
        })
    }

    fn grouped(&self, a: &Operand<'_>, b: &Operand<'_>, block: usize, at: usize, c: u32) -> u32 {
        let groups = (at..at + self.k).step_by(16).map(|at| {
            let products = (at..at + 16).map(|k| Term::product(a.at(k), b.at(k), 0));
            Term::group(products, a.scale_of(at, block), b.scale_of(at, block))
        });
        self.step(groups, c)
    }

    fn two_halves(&self, a: &Operand<'_>, b: &Operand<'_>, at: usize, c: u32) -> u32 {
        let half = |first: usize, c: u32| {
            let ks = (at..at + self.k).filter(|k| (k - at) % 4 / 2 == first);
            self.step(ks.map(|k| Term::product(as_f16(a.at(k)), as_f16(b.at(k)), 0)), c)
        };
        let product = half(1, half(0, 0));
        match self.accumulator {
            Accumulator::F32 => f32::from_f32(f32::from_bits(c) + f32::from_bits(product)).to_bits(),
            // f32 holds a sum of two f16 so well that rounding twice is rounding once.
            Accumulator::F16 => {
                let [c, product] = [c, product].map(|x| f16::from_bits(x as u16).to_f32());
                u32::from(<f16 as Element>::from_f32(c + product).to_bits())
            }
        }
    }

    fn step(&self, products: impl Iterator<Item = Term> + Clone, c: u32) -> u32 {
        let c = Term::accumulator(self.round.format().decode(c));
        step::sum(products.chain([c]), self.fraction, self.floor, self.round)
    }
}

impl Operand<'_> {
    fn at(&self, k: usize) -> Number {
        self.format.decode(self.bits[k])
    }

    /// The scale of value `k`, one to `block` values; 1 where there is none.
    fn scale_of(&self, k: usize, block: usize) -> Number {
        match self.scale {
            Some((format, bytes)) => format.decode(u32::from(bytes[k / block])),
            None => Number::Finite { sig: 1, frac: 0, exp: 0 },
        }
    }
}

/// An FP8 value as f16 holds it: exact, and a subnormal of e4m3 is normal there.
fn as_f16(x: Number) -> Number {
    match x {
        Number::Finite { sig, frac, exp } => Format::F16.decode(Round::RneF16.encode(sig, exp - frac)),
        special => special,
    }
}
