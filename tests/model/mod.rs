//! Tests of `vt_model`.

mod chat;
mod controls;
mod engine;
mod golden;
mod hidden;
mod tokenizer;
mod vs_transformers;
