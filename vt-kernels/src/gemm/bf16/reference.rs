//! Definition of the bf16 GEMM.

use half::bf16;

use crate::gemm::tile;
use crate::{Arch, Element, Result, Rows};

pub(super) fn run<O: Element>(
    arch: Arch,
    a: Rows<bf16>,
    b: Rows<bf16>,
    bias: Option<&[f32]>,
    out: Vec<&mut [O]>,
) -> Result<()> {
    tile::run(
        out,
        |columns, sum| tile::sum_bf16(arch, a, b.slice("b", columns)?, sum),
        |_, n, sum| tile::add_bias(sum, bias, n),
    )
}
