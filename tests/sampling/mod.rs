//! Tests of `vt_kernels::sampling`.
