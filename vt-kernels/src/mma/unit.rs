//! The rows of the model: which unit executes an instruction on a chip, and with what parameters.

use std::fmt;

use crate::{Arch, Unsupported};

/// A tensor-core instruction, by its shape in `k` and the width of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// `mma.sync.m16n8k8`, bf16 or f16.
    MmaK8,
    /// `mma.sync.m16n8k16`, bf16 or f16.
    MmaK16,
    /// `mma.sync.m16n8k4`, tf32.
    MmaTf32K4,
    /// `mma.sync.m16n8k8`, tf32.
    MmaTf32K8,
    /// `mma.sync.m16n8k16`, operands of eight bits.
    MmaFp8K16,
    /// `mma.sync.m16n8k32`, operands of eight bits (also `kind::f8f6f4`: FP6 and FP4 in bytes).
    MmaFp8K32,
    /// `mma.sync.m16n8k32.kind::mxf8f6f4.block_scale`, one ue8m0 scale to 32 `k`.
    MmaMxf8K32,
    /// `mma.sync.m16n8k64.kind::mxf4nvf4.block_scale` and `kind::mxf4`: e2m1 × e2m1.
    MmaFp4K64,
    /// `wgmma.m64nNk16`, bf16 or f16.
    WgmmaK16,
    /// `wgmma.m64nNk32`, e4m3 or e5m2.
    WgmmaFp8K32,
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Instruction::MmaK8 => "mma m16n8k8 bf16/f16",
            Instruction::MmaK16 => "mma m16n8k16 bf16/f16",
            Instruction::MmaTf32K4 => "mma m16n8k4 tf32",
            Instruction::MmaTf32K8 => "mma m16n8k8 tf32",
            Instruction::MmaFp8K16 => "mma m16n8k16 fp8",
            Instruction::MmaFp8K32 => "mma m16n8k32 fp8",
            Instruction::MmaMxf8K32 => "mma m16n8k32 mxf8f6f4",
            Instruction::MmaFp4K64 => "mma m16n8k64 mxf4nvf4",
            Instruction::WgmmaK16 => "wgmma m64nNk16 bf16/f16",
            Instruction::WgmmaFp8K32 => "wgmma m64nNk32 fp8",
        })
    }
}

/// Type of the accumulator, of `c` and of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
}

/// How the exact sum of a step becomes the accumulator. Overflow gives infinity under each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Round {
    /// Toward zero, to f32.
    RzF32,
    /// Toward zero, to 13 fraction bits: an f32 word whose low 10 bits are 0.
    RzE8m13,
    /// To nearest even, to f16.
    RneF16,
}

/// How the products of an instruction reach the accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// Steps of [`Unit::products`] products and the accumulator, each summed at once, in ascending `k`.
    Fused,
    /// One step over the exact sums of groups of 16 products, each times its scales.
    Grouped,
    /// FP8 `mma.sync` where there is no such unit: operands become f16, `k mod 4` in {0, 1} and then in
    /// {2, 3} go through two f16 instructions from zero, and their result is added to `c` to nearest even.
    TwoHalves,
}

/// How it is known that a row is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// Equal to an H200 in every output compared: 3,000 and more of each type.
    Measured,
    /// From published measurements or models of them; this project has not run it on the chip.
    Literature,
}

/// An instruction on a chip: one row of the table in [`crate::mma`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The chip.
    pub arch: Arch,
    /// The instruction.
    pub instruction: Instruction,
    /// Type of `c` and of the result.
    pub accumulator: Accumulator,
    /// How products reach the accumulator.
    pub path: Path,
    /// `k` of the instruction.
    pub k: usize,
    /// `L`: products summed at once. The instruction takes `k / L` steps.
    pub products: usize,
    /// `F`: fraction bits kept below the largest exponent.
    pub fraction: i32,
    /// `E0`: floor of that exponent.
    pub floor: i32,
    /// Rounding of a step's sum.
    pub round: Round,
    /// How it is known.
    pub evidence: Evidence,
}

impl Unit {
    /// The unit that executes `instruction` on `arch`.
    ///
    /// # Errors
    /// [`Unsupported`] if the chip lacks the instruction, or the instruction this accumulator.
    pub fn new(arch: Arch, instruction: Instruction, accumulator: Accumulator) -> Result<Unit, Unsupported> {
        use Accumulator::{F16, F32};
        use Arch::{Sm80, Sm89, Sm90a, Sm121a};
        use Instruction::*;
        let refuse = |reason: String| Err(Unsupported { kernel: "mma", arch, reason });
        let old = matches!(arch, Sm80 | Sm89);
        // Products to a step: 16 bytes of A on Ampere and Ada, 32 bytes afterwards, never more than k.
        let bytes = if old { 16 } else { 32 };
        let (k, width, path) = match (instruction, arch) {
            (MmaK8, _) => (8, 2, Path::Fused),
            (MmaK16, _) => (16, 2, Path::Fused),
            (MmaTf32K4, _) => (4, 4, Path::Fused),
            (MmaTf32K8, _) => (8, 4, Path::Fused),
            (MmaFp8K16, Sm89 | Sm121a) => (16, 1, Path::Fused),
            (MmaFp8K32, Sm89 | Sm121a) => (32, 1, Path::Fused),
            (MmaFp8K16, Sm90a) => (16, 2, Path::TwoHalves),
            (MmaFp8K32, Sm90a) => (32, 2, Path::TwoHalves),
            (MmaMxf8K32, Sm121a) => (32, 1, Path::Fused),
            (MmaFp4K64, Sm121a) => (64, 1, Path::Grouped),
            (WgmmaK16, Sm90a) => (16, 2, Path::Fused),
            (WgmmaFp8K32, Sm90a) => (32, 1, Path::Fused),
            _ => return refuse(format!("there is no {instruction}")),
        };
        let narrow = instruction == WgmmaFp8K32 || (width == 1 && arch == Sm89);
        let fraction = match path {
            Path::Grouped => 35,
            _ if narrow => 13,
            _ if old => 24,
            _ => 25,
        };
        let floor = match (accumulator, path) {
            (F32, Path::Grouped) => -139,
            (F32, _) if old => -132,
            (F32, _) => -133,
            (F16, _) if old => -20,
            (F16, _) => -21,
        };
        let round = match accumulator {
            F32 if narrow => Round::RzE8m13,
            F32 => Round::RzF32,
            F16 => Round::RneF16,
        };
        if accumulator == F16 && matches!(instruction, MmaTf32K4 | MmaTf32K8 | MmaMxf8K32 | MmaFp4K64) {
            return refuse(format!("{instruction} has no f16 accumulator"));
        }
        let products = match path {
            Path::Fused => k.min(bytes / width),
            Path::Grouped => k,
            Path::TwoHalves => k / 2,
        };
        let sync = matches!(instruction, MmaK8 | MmaK16 | MmaTf32K4 | MmaTf32K8 | MmaFp8K16 | MmaFp8K32);
        let wgmma = accumulator == F32 && matches!(instruction, WgmmaK16 | WgmmaFp8K32);
        let measured = arch == Sm90a && (sync || wgmma);
        let evidence = if measured { Evidence::Measured } else { Evidence::Literature };
        Ok(Unit { arch, instruction, accumulator, path, k, products, fraction, floor, round, evidence })
    }
}
