//! Tests of `vt_kernels::moe`.
