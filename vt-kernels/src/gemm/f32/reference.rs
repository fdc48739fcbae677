//! Definition of the f32 GEMM: `lane_sum(k, 4, 32, fma)` per output, arranged so that it vectorises over the lanes.

use crate::gemm::tile;
use crate::host::dispatch;
use crate::reduce::{WARP, warp_sum};
use crate::{Element, Result, Rows, RowsMut};

const VECTOR: usize = 4;
const BLOCK: usize = VECTOR * WARP;

pub(super) fn run<T: Element>(
    a: Rows<T>,
    b: Rows<f32>,
    bias: Option<&[f32]>,
    out: Vec<&mut [f32]>,
) -> Result<()> {
    let mut lanes_a = vec![0.0; a.rows() * a.cols()];
    for (i, row) in lanes_a.chunks_mut(a.cols()).enumerate() {
        dispatch(
            #[inline(always)]
            || by_lane(a.row(i), row),
        );
    }
    tile::run(
        out,
        |columns, sum| {
            let mut lanes_b = vec![0.0; b.cols()];
            for (j, n) in columns.enumerate() {
                dispatch(
                    #[inline(always)]
                    || column(&lanes_a, b.row(n), &mut lanes_b, j, sum),
                );
            }
            Ok(())
        },
        |_, n, sum| tile::add_bias(sum, bias, n),
    )
}

/// Column `j` of `sum`: every row of `a` times one row of `b`, for which `lanes_b` has room.
#[inline(always)]
fn column(lanes_a: &[f32], b: &[f32], lanes_b: &mut [f32], j: usize, sum: &mut RowsMut<f32>) {
    by_lane(b, lanes_b);
    for (i, a) in lanes_a.chunks(b.len()).enumerate() {
        sum.row_mut(i)[j] = dot(a, lanes_b);
    }
}

/// Widens a row and moves, in each whole block of 128, element `v` of lane `l` to `v * 32 + l`; the tail stays in place.
#[inline(always)]
fn by_lane<T: Element>(row: &[T], out: &mut [f32]) {
    let (blocks, tail) = row.as_chunks::<BLOCK>();
    let (out_blocks, out_tail) = out.as_chunks_mut::<BLOCK>();
    for (block, out) in blocks.iter().zip(out_blocks) {
        for l in 0..WARP {
            for v in 0..VECTOR {
                out[v * WARP + l] = block[l * VECTOR + v].to_f32();
            }
        }
    }
    tail.iter().zip(out_tail).for_each(|(x, o)| *o = x.to_f32());
}

/// The sum of the products of two rows that [`by_lane`] arranged.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_blocks, a_tail) = a.as_chunks::<BLOCK>();
    let (b_blocks, b_tail) = b.as_chunks::<BLOCK>();
    let mut lanes = [0.0f32; WARP];
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for l in 0..WARP {
            for v in 0..VECTOR {
                lanes[l] = a[v * WARP + l].mul_add(b[v * WARP + l], lanes[l]);
            }
        }
    }
    for (i, (a, b)) in a_tail.iter().zip(b_tail).enumerate() {
        lanes[i / VECTOR] = a.mul_add(*b, lanes[i / VECTOR]);
    }
    warp_sum(&lanes)
}
