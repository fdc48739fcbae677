//! Tests of `model`.

mod checkpoint;
mod config;
mod quant;
mod weights;
