//! Tests of `vt_kernels::attention`.
