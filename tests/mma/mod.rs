//! Tests of `mma`.

mod rows;
mod vectors;
