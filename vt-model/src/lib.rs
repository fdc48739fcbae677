//! NVIDIA's Nemotron-H, assembled from `vt-kernels`.

pub mod config;
pub mod error;
pub mod inspect;
pub mod quant;
pub mod weights;

mod checkpoint;
