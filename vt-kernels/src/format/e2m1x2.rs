//! Two e2m1 codes in a byte, the lower index in the low nibble.

use super::E2m1;

/// Packs two codes; `lo` is the element of the lower index.
#[inline(always)]
pub fn pack(lo: E2m1, hi: E2m1) -> u8 {
    lo.to_bits() | hi.to_bits() << 4
}

/// The two codes of a byte, lower index first.
#[inline(always)]
pub fn unpack(byte: u8) -> (E2m1, E2m1) {
    (E2m1::from_bits(byte), E2m1::from_bits(byte >> 4))
}
