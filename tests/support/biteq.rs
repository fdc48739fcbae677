//! Equality of bits, the only comparison of floats. A failure tells count, first place, both values, both in hex.

use half::{bf16, f16};

/// A value with a bit pattern.
pub trait Bits: Copy {
    /// Its bits, widened.
    fn bits(self) -> u64;
    /// It as a number.
    fn value(self) -> f64;
}

macro_rules! bits {
    ($($t:ty: $bits:expr, $value:expr;)*) => {$(
        impl Bits for $t {
            fn bits(self) -> u64 { ($bits)(self) as u64 }
            fn value(self) -> f64 { ($value)(self) as f64 }
        }
    )*};
}
bits! {
    f32: f32::to_bits, |x| x;
    bf16: bf16::to_bits, bf16::to_f32;
    f16: f16::to_bits, f16::to_f32;
    u8: |x| x, |x| x;
    u32: |x| x, |x| x;
    i32: |x: i32| x as u32, |x| x;
}

/// `Err` describing the first of the elements whose bits differ.
#[must_use = "a comparison that nobody looks at is no test"]
pub fn biteq<T: Bits>(name: &str, got: &[T], want: &[T]) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{name}: {} elements, expected {}", got.len(), want.len()));
    }
    let differ: Vec<usize> = (0..got.len()).filter(|&i| got[i].bits() != want[i].bits()).collect();
    let Some(&i) = differ.first() else { return Ok(()) };
    Err(format!(
        "{name}: {} of {} elements differ, first at {i}: got {} ({:#x}), expected {} ({:#x})",
        differ.len(),
        got.len(),
        got[i].value(),
        got[i].bits(),
        want[i].value(),
        want[i].bits(),
    ))
}

/// Panics where [`biteq`] is an `Err`.
#[track_caller]
pub fn assert_biteq<T: Bits>(name: &str, got: &[T], want: &[T]) {
    if let Err(e) = biteq(name, got, want) {
        panic!("{e}");
    }
}

#[test]
fn sees_one_bit() {
    assert!(biteq("x", &[0.0f32], &[-0.0f32]).is_err());
    assert!(biteq("x", &[f32::NAN], &[f32::from_bits(0x7fff_ffff)]).is_err());
    assert!(biteq("x", &[1.0f32], &[1.0f32, 2.0]).is_err());
    assert!(biteq("x", &[f32::NAN], &[f32::NAN]).is_ok());
}
