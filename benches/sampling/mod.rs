//! Benches of `vt_kernels::sampling`.

mod argmax;
mod logprobs;
mod penalties;
mod sample;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    argmax::benches(c);
    logprobs::benches(c);
    penalties::benches(c);
    sample::benches(c);
}
