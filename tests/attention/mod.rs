//! Tests of `vt_kernels::attention`.

mod cache_write;
mod flash;
