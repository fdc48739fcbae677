//! Tests of `model`.

mod checkpoint;
mod config;
mod inspect;
mod quant;
mod weights;
