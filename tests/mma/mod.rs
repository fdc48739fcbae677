//! Tests of `mma`.

mod fold;
mod operands;
mod rows;
mod units;
mod vectors;
