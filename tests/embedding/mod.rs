//! Tests of `vt_kernels::embedding`.

mod gather;
