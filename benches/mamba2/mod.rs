//! Benches of `vt_kernels::mamba2`.

mod chunk_scan;
mod state_update;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    chunk_scan::benches(c);
    state_update::benches(c);
}
