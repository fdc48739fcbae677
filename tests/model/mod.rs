//! Tests of `vt_model`.

mod checkpoint;
mod config;
mod controls;
mod engine;
mod hidden;
mod inspect;
mod quant;
mod vs_transformers;
mod weights;
