//! NVIDIA's Nemotron-H, assembled from `vt-kernels`.
//!
//! [`weights::Weights`] reads a Hugging Face folder, [`model::Model`] is the forward pass on a
//! [`backend::Backend`], [`engine::Engine`] runs requests on it in one continuous batch.

pub mod backend;
pub mod batch;
pub mod chat;
pub mod compare;
pub mod config;
pub mod engine;
pub mod error;
pub mod gate;
pub mod golden;
pub mod inspect;
pub mod model;
pub mod quant;
pub mod tensor;
pub mod tokenizer;
pub mod trace;
pub mod weights;

mod checkpoint;
mod layer;

/// The README's Rust is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
