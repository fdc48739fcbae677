//! Tests of `vt_model`.

mod controls;
mod engine;
mod hidden;
mod vs_transformers;
