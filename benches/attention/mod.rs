//! Benches of `vt_kernels::attention`.

mod cache_write;
mod flash;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    cache_write::benches(c);
    flash::benches(c);
}
