//! Definition of the W8A16 GEMM.

use half::bf16;

use crate::format::E4m3;
use crate::gemm::fp8::Scale;
use crate::gemm::tile;
use crate::{Arch, Element, Result, Rows};

pub(super) fn run<O: Element>(
    arch: Arch,
    a: Rows<bf16>,
    b: Rows<E4m3>,
    b_scale: Scale,
    bias: Option<&[f32]>,
    out: Vec<&mut [O]>,
) -> Result<()> {
    let k = b.cols();
    let codes: [bf16; 256] = std::array::from_fn(|i| Element::from_f32(E4m3::from_bits(i as u8).to_f32()));
    tile::run(
        out,
        |columns, sum| {
            let n = columns.len();
            let mut weights = vec![bf16::ZERO; n * k];
            for (n, row) in columns.zip(weights.chunks_mut(k)) {
                row.iter_mut().zip(b.row(n)).for_each(|(w, code)| *w = codes[code.to_bits() as usize]);
            }
            tile::sum_bf16(arch, a, Rows::new("b", &weights, n, k)?, sum)
        },
        |_, n, sum| tile::add_bias(sum * b_scale.of(n), bias, n),
    )
}
