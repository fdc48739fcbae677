//! Tests of `vt_kernels::format`.

mod codes;
mod nvfp4;
