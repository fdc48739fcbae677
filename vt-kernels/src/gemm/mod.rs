//! Matrix products `out[m, n] = Σ_k a[m, k] · b[n, k]`: activations `a`, weights `b` as torch's `Linear` keeps them.
//!
//! | kernel | `a` | `b` | sum |
//! |---|---|---|---|
//! | [`bf16`](mod@bf16) | bf16 | bf16 | MMA over slices of [`K_SLICE`], slice sums in f32 |
//! | [`f32`](mod@f32) | f32, bf16, f16 | f32 | fused multiply-adds in the lanes of a warp; the router |
//! | [`fp8`] | e4m3 | e4m3 | MMA; on sm_90a promoted to f32 every [`PROMOTE`] of K |
//! | [`nvfp4`] | NVFP4 | NVFP4 | block-scaled MMA, one fold over all of K |
//! | [`marlin::nvfp4`](crate::marlin::nvfp4), [`marlin::fp8`](crate::marlin::fp8) | bf16 | NVFP4, e4m3 | as `bf16` |
//!
//! An output's bits depend on its row of `a`, its row of `b` and `k` alone: not on the other rows, not on how the
//! outputs are tiled, not on the number of threads. A grouped form (the experts of a layer) gives each row the bits
//! it would have alone. `m` may be 0 and any `n ≥ 1` is allowed.

pub mod bf16;
pub mod f32;
pub mod fp8;
pub mod nvfp4;
pub(crate) mod tile;

/// Length of a slice of K in the bf16 sums: each slice is folded from zero, slice sums are added in ascending order
/// in f32 and the first is taken as it is. One row can then spread its slices over warps and multiprocessors while
/// a large batch runs them in sequence, to the same bits.
pub const K_SLICE: usize = 512;

/// Products of K after which wgmma's narrow e4m3 sum on sm_90a is added to the f32 sum and restarts from zero.
pub const PROMOTE: usize = 128;

/// What one row's problem looks like. The number of rows `m` is an argument's, not the shape's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of `b`, columns of `out`.
    pub n: usize,
    /// Columns of `a` and `b`.
    pub k: usize,
}
