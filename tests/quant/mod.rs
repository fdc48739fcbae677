//! Tests of `vt_kernels::quant`.
