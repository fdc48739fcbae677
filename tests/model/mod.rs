//! Tests of `vt_model`.

mod chat;
mod checkpoint;
mod config;
mod controls;
mod engine;
mod golden;
mod hidden;
mod inspect;
mod quant;
mod tokenizer;
mod vs_transformers;
mod weights;
