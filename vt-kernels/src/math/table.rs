//! Constants of the elementary functions, as bits: a device twin includes the same words.

/// 1.5 · 2^23: adding it rounds a small f32 to an integer in the low mantissa bits, ties to even.
pub const ROUND: f32 = f32::from_bits(0x4b40_0000);
/// log2(e), rounded.
pub const LOG2_E: f32 = f32::from_bits(0x3fb8_aa3b);
/// ln(2), leading bits: products with integers below 2^11 are exact.
pub const LN_2_HI: f32 = f32::from_bits(0x3f31_6000);
/// ln(2) − [`LN_2_HI`], rounded.
pub const LN_2_LO: f32 = f32::from_bits(0x3990_bfbf);
/// sqrt(1/2), rounded down: the mantissa range of a logarithm starts here.
pub const SQRT_HALF: f32 = f32::from_bits(0x3f35_04f3);

/// 2^f ≈ Σ c_i f^i on |f| ≤ 1/2, relative error 3.0e-9, lowest power first.
pub const EXP2: [f32; 7] =
    words([0x3f80_0000, 0x3f31_7218, 0x3e75_fdee, 0x3d63_57bd, 0x3c1d_96e9, 0x3aaf_84a6, 0x3920_bd53]);
/// e^r ≈ Σ c_i r^i on |r| ≤ ln(2)/2, relative error 3.2e-9, lowest power first.
pub const EXP: [f32; 7] =
    words([0x3f80_0000, 0x3f80_0000, 0x3eff_fffe, 0x3e2a_aa49, 0x3d2a_ac5b, 0x3c09_1cd1, 0x3ab5_23a2]);
/// (2·atanh(s) − 2s) / s³ ≈ Σ c_i s^2i for s = f / (2 + f), |s| ≤ 0.172, relative error 3.0e-8.
pub const ATANH: [f32; 4] = words([0x3f2a_aaab, 0x3ecc_cb58, 0x3e92_bdef, 0x3e55_be45]);

const fn words<const N: usize>(bits: [u32; N]) -> [f32; N] {
    let mut values = [0.0; N];
    let mut i = 0;
    while i < N {
        values[i] = f32::from_bits(bits[i]);
        i += 1;
    }
    values
}
