//! Tests of `vt_kernels::embedding`.
