//! Benches of `vt_kernels::marlin`.

/// Registers every bench of the family.
pub fn benches(_c: &mut criterion::Criterion) {}
