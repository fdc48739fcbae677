//! Tests of `vt_kernels::norm`.
