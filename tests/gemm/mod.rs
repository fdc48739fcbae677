//! Tests of `vt_kernels::gemm`.

pub mod check;

mod bf16;
mod f32;
mod fp8;
pub mod nvfp4;
