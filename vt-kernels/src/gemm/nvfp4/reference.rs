//! Definition of the W4A4 GEMM.

use crate::format::Nvfp4Ref;
use crate::gemm::tile;
use crate::{Arch, Element, Result, mma};

pub(super) fn run<O: Element>(
    arch: Arch,
    a: Nvfp4Ref,
    b: Nvfp4Ref,
    bias: Option<&[f32]>,
    out: Vec<&mut [O]>,
) -> Result<()> {
    let alpha = a.global_scale() * b.global_scale();
    tile::run(
        out,
        |columns, sum| mma::fold::nvfp4(arch, a, b.slice("b", columns)?, sum),
        |_, n, sum| tile::add_bias(sum * alpha, bias, n),
    )
}
