//! Benches of `vt_kernels::attention`.

/// Registers every bench of the family.
pub fn benches(_c: &mut criterion::Criterion) {}
