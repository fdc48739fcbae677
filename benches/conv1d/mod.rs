//! Benches of `vt_kernels::conv1d`.

/// Registers every bench of the family.
pub fn benches(_c: &mut criterion::Criterion) {}
