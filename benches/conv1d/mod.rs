//! Benches of `vt_kernels::conv1d`.

mod forward;
mod update;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    forward::benches(c);
    update::benches(c);
}
