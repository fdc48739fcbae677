//! Benches of `vt_kernels::embedding`.

mod gather;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    gather::benches(c);
}
