//! Benches of `vt_kernels::gemm`.

/// Registers every bench of the family.
pub fn benches(_c: &mut criterion::Criterion) {}
