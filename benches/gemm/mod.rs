//! Benches of `vt_kernels::gemm`.

mod bf16;
mod f32;
mod fp8;
pub mod nvfp4;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    bf16::benches(c);
    f32::benches(c);
    fp8::benches(c);
    nvfp4::benches(c);
}
