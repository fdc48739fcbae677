//! Tests of `vt_kernels::mamba2`.
