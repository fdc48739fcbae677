//! The one order in which a row is summed: vectors go round the lanes, lanes join in a tree, warps in index
//! order. It depends on the length of the row only.

/// Lanes of a warp.
pub const WARP: usize = 32;

/// Sums `term(acc, i)` for `i` in `0..n`, where `term` folds element `i` into a lane's partial sum
/// (`acc + x`, or `fma(x, y, acc)`).
///
/// Element `i` belongs to lane `(i / vector) % lanes`; a lane folds its elements in ascending order from +0.
/// Lanes of one warp join by a butterfly over distances 16, 8, 4, 2, 1; then warp sums are added in
/// ascending order. `lanes` is 32 or a multiple of it.
#[inline(always)]
pub fn lane_sum(n: usize, vector: usize, lanes: usize, term: impl FnMut(f32, usize) -> f32) -> f32 {
    debug_assert!(lanes.is_multiple_of(WARP) && lanes > 0 && vector > 0);
    match lanes {
        WARP => fold_lanes(n, vector, &mut [0.0; WARP], term),
        256 => fold_lanes(n, vector, &mut [0.0; 256], term),
        _ => fold_lanes(n, vector, &mut vec![0.0; lanes], term),
    }
}

#[inline(always)]
fn fold_lanes(n: usize, vector: usize, partial: &mut [f32], mut term: impl FnMut(f32, usize) -> f32) -> f32 {
    let mut i = 0;
    while i < n {
        for lane in partial.iter_mut() {
            for _ in 0..vector.min(n - i) {
                *lane = term(*lane, i);
                i += 1;
            }
        }
    }
    let mut total = 0.0;
    for (w, warp) in partial.chunks_exact(WARP).enumerate() {
        let sum = warp_sum(warp.try_into().unwrap_or(&[0.0; WARP]));
        total = if w == 0 { sum } else { total + sum };
    }
    total
}

/// The butterfly of a warp: at distances 16, 8, 4, 2, 1 each lane adds its partner's value. Addition
/// commutes, so every lane ends with the same bits.
#[inline(always)]
pub fn warp_sum(lanes: &[f32; WARP]) -> f32 {
    let mut v = *lanes;
    for distance in [16, 8, 4, 2, 1] {
        for i in 0..distance {
            v[i] += v[i + distance];
        }
    }
    v[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_vectors_then_tree_then_warps() {
        // 1 + 2^-24 is lost in f32; which terms meet first decides the result.
        let tiny = 2f32.powi(-24);
        let x = [1.0, tiny, tiny];
        // One lane folds all three: (1 + tiny) + tiny = 1.
        assert_eq!(lane_sum(3, 4, 32, |a, i| a + x[i]), 1.0);
        // Lanes 0, 1, 2: the butterfly adds lane 0 + lane 2 first, then lane 1: still 1.
        assert_eq!(lane_sum(3, 1, 32, |a, i| a + x[i]), 1.0);
        // Lanes 1 and 3 meet at distance 2 before they meet lane 0.
        let y = [1.0, tiny, 0.0, tiny];
        assert_eq!(lane_sum(4, 1, 32, |a, i| a + y[i]), 1.0 + 2.0 * tiny);
        assert_eq!(lane_sum(0, 1, 64, |a, _| a), 0.0);
    }
}
