//! Tests of `vt_kernels::format`.
