//! Tests of `vt_model`.

mod chat;
mod checkpoint;
mod compare;
mod config;
mod controls;
mod engine;
mod gate;
mod golden;
mod hidden;
mod inspect;
mod quant;
mod tokenizer;
mod vs_transformers;
mod weights;
