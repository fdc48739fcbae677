//! Benches of `vt_kernels::moe`.

mod combine;
mod gather;
mod permute;
mod relu2;
mod router;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    combine::benches(c);
    gather::benches(c);
    permute::benches(c);
    relu2::benches(c);
    router::benches(c);
}
