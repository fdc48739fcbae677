//! Benches of `mma`.

mod fold;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    fold::benches(c);
}
