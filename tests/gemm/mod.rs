//! Tests of `vt_kernels::gemm`.
