//! Tests of `vt_kernels::marlin`.
