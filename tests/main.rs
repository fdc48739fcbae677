//! Every test of vt. Modules mirror the kernels' paths; inside them, modules are named by oracle.

#[path = "support/mod.rs"]
mod support;

mod attention;
mod conv1d;
mod embedding;
mod format;
mod gemm;
mod layout;
mod mamba2;
mod marlin;
mod math;
mod mma;
mod model;
mod moe;
mod norm;
mod quant;
mod sampling;
