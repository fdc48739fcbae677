//! Benches of `vt_kernels::mamba2`.

/// Registers every bench of the family.
pub fn benches(_c: &mut criterion::Criterion) {}
