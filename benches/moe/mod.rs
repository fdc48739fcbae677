//! Benches of `vt_kernels::moe`.

/// Registers every bench of the family.
pub fn benches(_c: &mut criterion::Criterion) {}
