//! Weight-only GEMMs in the manner of Marlin: bf16 activations, quantised weights that are decoded exactly to bf16.
//!
//! Both share the sum of [`gemm::bf16`](crate::gemm::bf16); the scale that bf16 could not hold exactly multiplies the
//! f32 sum instead, so the only roundings are those of the sum, the scale, the bias and the store.

pub mod fp8;
pub mod nvfp4;
