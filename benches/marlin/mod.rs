//! Benches of `vt_kernels::marlin`.

mod fp8;
mod nvfp4;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    fp8::benches(c);
    nvfp4::benches(c);
}
