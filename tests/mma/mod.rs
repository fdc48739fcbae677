//! Tests of `mma`.

mod fold;
mod operands;
mod rows;
mod vectors;
