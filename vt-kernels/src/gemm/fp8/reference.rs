//! Definition of the W8A8 GEMM.

use super::Scale;
use crate::format::E4m3;
use crate::gemm::{PROMOTE, tile};
use crate::mma::{self, Fp8Arm};
use crate::{Arch, Element, Result, Rows};

pub(super) fn run<O: Element>(
    arch: Arch,
    a: Rows<E4m3>,
    a_scale: Scale,
    b: Rows<E4m3>,
    b_scale: Scale,
    bias: Option<&[f32]>,
    out: Vec<&mut [O]>,
) -> Result<()> {
    let (arm, slice) = match arch {
        Arch::Sm90a => (Fp8Arm::Wgmma, PROMOTE),
        _ => (Fp8Arm::MmaSync, a.cols()),
    };
    tile::run(
        out,
        |columns, sum| {
            let b = b.slice("b", columns)?;
            tile::sliced(a.cols(), slice, sum, |k, part| {
                mma::fold::e4m3(arch, arm, a.columns("a", k.clone())?, b.columns("b", k)?, part)
            })
        },
        |m, n, sum| tile::add_bias(sum * (a_scale.of(m) * b_scale.of(n)), bias, n),
    )
}
