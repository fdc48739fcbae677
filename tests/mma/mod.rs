//! Tests of `mma`.
