//! Benches of `vt_kernels::quant`.

/// Registers every bench of the family.
pub fn benches(_c: &mut criterion::Criterion) {}
