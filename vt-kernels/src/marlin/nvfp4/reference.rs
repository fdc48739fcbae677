//! Definition of the W4A16 GEMM.

use half::bf16;

use crate::format::Nvfp4Ref;
use crate::gemm::tile;
use crate::{Arch, Element, Result, Rows};

pub(super) fn run<O: Element>(
    arch: Arch,
    a: Rows<bf16>,
    b: Nvfp4Ref,
    bias: Option<&[f32]>,
    out: Vec<&mut [O]>,
) -> Result<()> {
    let k = b.cols();
    tile::run(
        out,
        |columns, sum| {
            let n = columns.len();
            let mut weights = vec![bf16::ZERO; n * k];
            columns.zip(weights.chunks_mut(k)).for_each(|(n, row)| b.unscaled_row(n, row));
            tile::sum_bf16(arch, a, Rows::new("b", &weights, n, k)?, sum)
        },
        |_, n, sum| tile::add_bias(sum * b.global_scale(), bias, n),
    )
}
