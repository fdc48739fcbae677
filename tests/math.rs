//! Tests of `vt_kernels::math`.
