//! Tests of `vt_kernels::marlin`.

mod fp8;
mod nvfp4;
