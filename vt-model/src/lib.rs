//! NVIDIA's Nemotron-H, assembled from `vt-kernels`.

pub mod golden;
pub mod tokenizer;
