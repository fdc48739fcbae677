//! Tests of `vt_kernels::sampling`.

mod argmax;
mod logprobs;
mod penalties;
mod sample;
