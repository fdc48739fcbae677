//! NVIDIA's Nemotron-H, assembled from `vt-kernels`.

pub mod chat;
pub mod golden;
pub mod tokenizer;
