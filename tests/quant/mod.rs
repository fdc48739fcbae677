//! Tests of `vt_kernels::quant` and of the layouts of scales.

mod fp8;
mod layouts;
mod nvfp4;
