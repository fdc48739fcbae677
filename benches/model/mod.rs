//! Benches of `model`.

mod load;

/// Registers every bench of the family.
pub fn benches(c: &mut criterion::Criterion) {
    load::benches(c);
}
