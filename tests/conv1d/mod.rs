//! Tests of `vt_kernels::conv1d`.
