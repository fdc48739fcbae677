//! Benches of `vt_kernels::norm`.

mod gated_group;
mod residual_add;
mod rms;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    gated_group::benches(c);
    residual_add::benches(c);
    rms::benches(c);
}
