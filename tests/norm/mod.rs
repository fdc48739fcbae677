//! Tests of `vt_kernels::norm`.

mod gated_group;
mod residual_add;
mod rms;

/// The stated order of a row's sum, written from its definition: element `i` to lane `(i / vector) % lanes`, pairs of lanes
/// at distances 16, 8, 4, 2, 1, then warps.
fn lane_sum_of_squares(x: &[f32], vector: usize, lanes: usize) -> f32 {
    let mut partial = vec![0.0f32; lanes];
    for (i, x) in x.iter().enumerate() {
        let lane = &mut partial[i / vector % lanes];
        *lane = x.mul_add(*x, *lane);
    }
    let warp = |v: &[f32]| {
        let mut v = v.to_vec();
        while v.len() > 1 {
            let half = v.len() / 2;
            v = (0..half).map(|i| v[i] + v[i + half]).collect();
        }
        v[0]
    };
    partial.chunks(32).map(warp).reduce(|a, b| a + b).unwrap()
}
