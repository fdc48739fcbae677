//! Mixture of experts around the grouped GEMM: choose, order, activate, combine.

pub mod combine;
pub mod gather;
pub mod permute;
pub mod relu2;
pub mod router;
