//! Benches of `vt_kernels::sampling`.

/// Registers every bench of the family.
pub fn benches(_c: &mut criterion::Criterion) {}
