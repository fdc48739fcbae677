//! Matrix products as the tensor cores of a chip accumulate them.
//!
//! Every function computes `acc[m, n]` = the fold of MMA steps over ascending `k`, starting from `acc[m, n]`:
//! bit for bit what a kernel gets that issues the instruction along `K` on one accumulator, whatever its
//! tiles. `a` is `[M, K]`, `b` is `[N, K]` (the weight of a `torch.nn.Linear`) or, for the functions named
//! `_kn`, `[K, N]`; `acc` is `[M, N]` f32. A tail of `K` shorter than the instruction is padded with zeros.
//!
//! `K` = 0 leaves `acc` as it is; cutting `K` at a multiple of the instruction's `k` and folding the parts
//! one after the other gives the same bits as one call. An element of `acc` depends on its own row of `a`
//! and row of `b` alone. The functions are serial; a caller gives parts of `acc` to its threads.

use half::{bf16 as Bf16, f16 as F16};

use super::fast::drive::{self, Columns};
use super::fast::nvfp4;
use super::fast::tile::{AsF16, Native};
use super::{Accumulator, Fp8Arm, Instruction, Path, Unit};
use crate::format::{E4m3, Nvfp4Ref};
use crate::{Arch, Error, Result, Rows, RowsMut};

/// bf16 by `mma.sync.m16n8k16` (on sm_90a `wgmma` k16 gives the same bits).
///
/// # Errors
/// Shapes that do not fit; nothing is written then.
pub fn bf16(arch: Arch, a: Rows<'_, Bf16>, b: Rows<'_, Bf16>, acc: &mut RowsMut<'_, f32>) -> Result<()> {
    check_nk(&a, &b, acc)?;
    run_bf16(arch, a, Columns::Nk(b), acc)
}

/// [`bf16`] with `b` `[K, N]`: the `v` of attention.
///
/// # Errors
/// As [`bf16`].
pub fn bf16_kn(arch: Arch, a: Rows<'_, Bf16>, b: Rows<'_, Bf16>, acc: &mut RowsMut<'_, f32>) -> Result<()> {
    check_kn(&a, &b, acc)?;
    run_bf16(arch, a, Columns::Kn(b), acc)
}

/// f16 by `mma.sync.m16n8k16` into f32.
///
/// # Errors
/// Shapes that do not fit; nothing is written then.
pub fn f16(arch: Arch, a: Rows<'_, F16>, b: Rows<'_, F16>, acc: &mut RowsMut<'_, f32>) -> Result<()> {
    check_nk(&a, &b, acc)?;
    let (unit, b) = (Unit::new(arch, Instruction::MmaK16, Accumulator::F32)?, Columns::Nk(b));
    match unit.products {
        8 => drive::fold::<F16, 8, false>(&unit, a, b, acc),
        _ => drive::fold::<F16, 16, false>(&unit, a, b, acc),
    }
}

/// e4m3 by `wgmma.m64nNk32` or `mma.sync.m16n8k32`.
///
/// # Errors
/// Shapes that do not fit; an arm that the chip does not have. Nothing is written then.
pub fn e4m3(
    arch: Arch,
    arm: Fp8Arm,
    a: Rows<'_, E4m3>,
    b: Rows<'_, E4m3>,
    acc: &mut RowsMut<'_, f32>,
) -> Result<()> {
    check_nk(&a, &b, acc)?;
    run_e4m3(arch, arm, a, Columns::Nk(b), acc)
}

/// [`e4m3`] with `b` `[K, N]`.
///
/// # Errors
/// As [`e4m3`].
pub fn e4m3_kn(
    arch: Arch,
    arm: Fp8Arm,
    a: Rows<'_, E4m3>,
    b: Rows<'_, E4m3>,
    acc: &mut RowsMut<'_, f32>,
) -> Result<()> {
    check_kn(&a, &b, acc)?;
    run_e4m3(arch, arm, a, Columns::Kn(b), acc)
}

/// NVFP4 by `mma.sync.m16n8k64.kind::mxf4nvf4` with a ue4m3 scale to 16 values: sm_121a. The operands'
/// global scales are not applied.
///
/// # Errors
/// Shapes that do not fit; another chip. Nothing is written then.
pub fn nvfp4(arch: Arch, a: Nvfp4Ref<'_>, b: Nvfp4Ref<'_>, acc: &mut RowsMut<'_, f32>) -> Result<()> {
    if b.cols() != a.cols() {
        return Err(Error::shape("b", &[b.rows(), b.cols()], format!("[N, K], K = {}", a.cols())));
    }
    acc.expect("acc", a.rows(), b.rows(), "[M, N]")?;
    let unit = Unit::new(arch, Instruction::MmaFp4K64, Accumulator::F32)?;
    nvfp4::fold(&unit, a, b, acc)
}

fn run_bf16(arch: Arch, a: Rows<'_, Bf16>, b: Columns<'_, Bf16>, acc: &mut RowsMut<'_, f32>) -> Result<()> {
    let unit = Unit::new(arch, Instruction::MmaK16, Accumulator::F32)?;
    match unit.products {
        8 => drive::fold::<Bf16, 8, false>(&unit, a, b, acc),
        _ => drive::fold::<Bf16, 16, false>(&unit, a, b, acc),
    }
}

fn run_e4m3(
    arch: Arch,
    arm: Fp8Arm,
    a: Rows<'_, E4m3>,
    b: Columns<'_, E4m3>,
    acc: &mut RowsMut<'_, f32>,
) -> Result<()> {
    let instruction = match arm {
        Fp8Arm::Wgmma => Instruction::WgmmaFp8K32,
        Fp8Arm::MmaSync => Instruction::MmaFp8K32,
    };
    let unit = Unit::new(arch, instruction, Accumulator::F32)?;
    match (unit.path, unit.products) {
        (Path::TwoHalves, _) => drive::fold::<AsF16, 16, true>(&unit, a, b, acc),
        (_, 16) => drive::fold::<Native, 16, false>(&unit, a, b, acc),
        _ => drive::fold::<Native, 32, false>(&unit, a, b, acc),
    }
}

fn check_nk<T>(a: &Rows<'_, T>, b: &Rows<'_, T>, acc: &RowsMut<'_, f32>) -> Result<()> {
    if b.cols() != a.cols() {
        return Err(Error::shape("b", &[b.rows(), b.cols()], format!("[N, K], K = {}", a.cols())));
    }
    acc.expect("acc", a.rows(), b.rows(), "[M, N]")
}

fn check_kn<T>(a: &Rows<'_, T>, b: &Rows<'_, T>, acc: &RowsMut<'_, f32>) -> Result<()> {
    if b.rows() != a.cols() {
        return Err(Error::shape("b", &[b.rows(), b.cols()], format!("[K, N], K = {}", a.cols())));
    }
    acc.expect("acc", a.rows(), b.cols(), "[M, N]")
}
