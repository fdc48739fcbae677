//! Tests of `vt-model`.

mod chat;
mod golden;
mod tokenizer;
