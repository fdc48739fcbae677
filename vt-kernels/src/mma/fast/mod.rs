//! The steps of [`super::step`] for operands of 8 and 16 bits, over lanes of output columns.
//!
//! A tile of `b` is decoded once, `k`-major, into significands and exponents of 16 bits; a row of `a` then
//! runs through it with one lane to each column and no branch on an element. Significands are shifted up
//! when decoded, so that a product already sits `F` bits below its own exponent and a step only shifts it
//! down. Sixteen such products fit 32 bits; partial sums, the accumulator and the conversion are exact in
//! f64. NaN and infinity among the operands are left to the definition.

pub(super) mod drive;
pub(super) mod nvfp4;
pub(super) mod tile;

use tile::{Code, LANES, NONE, Row, Tile};

/// What distinguishes the units here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    /// `F`.
    pub(super) fraction: i32,
    /// `E0`.
    pub(super) floor: i16,
    /// Bits of the f32 that the result keeps.
    pub(super) keep: u32,
}

/// Accumulators of a tile: bits of f32.
pub(super) type Lanes = [u32; LANES];

/// `acc` + a row of `a` times `tile`, in steps of `L` products.
#[inline(always)]
pub(super) fn chain<const L: usize>(p: Params, row: &Row, tile: &Tile, acc: &mut Lanes) {
    let rows = row.sig.as_chunks::<L>().0.iter().zip(row.exp.as_chunks::<L>().0);
    let tiles = tile.sig.as_chunks::<L>().0.iter().zip(tile.exp.as_chunks::<L>().0);
    for ((sig, exp), (tile_sig, tile_exp)) in rows.zip(tiles) {
        step(p, sig, exp, tile_sig, tile_exp, acc);
    }
}

/// As [`chain`] for FP8 that runs as two steps of f16 from zero, added to `acc` to nearest even.
#[inline(always)]
pub(super) fn chain_two_halves(p: Params, row: &Row, tile: &Tile, acc: &mut Lanes) {
    let rows = row.sig.as_chunks::<16>().0.iter().zip(row.exp.as_chunks::<16>().0);
    let tiles = tile.sig.as_chunks::<16>().0.iter().zip(tile.exp.as_chunks::<16>().0);
    let mut product = [0; LANES];
    for (i, ((sig, exp), (tile_sig, tile_exp))) in rows.zip(tiles).enumerate() {
        step(p, sig, exp, tile_sig, tile_exp, &mut product);
        if i % 2 == 1 {
            for l in 0..LANES {
                let sum = f32::from_bits(acc[l]) + f32::from_bits(product[l]);
                acc[l] = if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() };
            }
            product = [0; LANES];
        }
    }
}

/// One step. Each loop over lanes keeps to one width of numbers, so that it fills the host's vectors.
#[inline(always)]
fn step<const L: usize>(
    p: Params,
    sig: &[i16; L],
    exp: &[i16; L],
    tile_sig: &[[i16; LANES]; L],
    tile_exp: &[[i16; LANES]; L],
    acc: &mut Lanes,
) {
    let (mut c, mut c_exp) = ([0i32; LANES], [0i16; LANES]);
    for l in 0..LANES {
        let magnitude = acc[l] & 0x7fff_ffff;
        let hidden = u32::from(magnitude >= 0x0080_0000) << 23;
        // Two bits below those of f32 make room for F = 25; a smaller F cuts more.
        c[l] = (((magnitude & 0x007f_ffff) | hidden) << 2) as i32;
        let e = ((magnitude >> 23) as i16).max(1) - 127;
        c_exp[l] = if magnitude == 0 { NONE } else { e };
    }
    let mut top = c_exp.map(|e| e.max(p.floor));
    for (exp, tile_exp) in exp.as_chunks::<8>().0.iter().zip(tile_exp.as_chunks::<8>().0) {
        for l in 0..LANES {
            let mut largest = top[l];
            for k in 0..8 {
                largest = largest.max(exp[k] + tile_exp[k][l]);
            }
            top[l] = largest;
        }
    }
    let mut total = [0f64; LANES];
    for l in 0..LANES {
        let down = (i32::from(top[l]) - i32::from(c_exp[l]) + 25 - p.fraction) as u32;
        let cut = (c[l] as u32).checked_shr(down).unwrap_or(0) as i32;
        let sign = acc[l] as i32 >> 31;
        total[l] = f64::from((cut ^ sign) - sign);
    }
    // Sixteen terms are as many as 32 bits hold.
    for from in (0..L).step_by(16) {
        let mut sum = [0i32; LANES];
        for from in (from..L.min(from + 16)).step_by(8) {
            let (sig, exp) = (&sig[from..from + 8], &exp[from..from + 8]);
            let (tile_sig, tile_exp) = (&tile_sig[from..from + 8], &tile_exp[from..from + 8]);
            for l in 0..LANES {
                let mut terms = sum[l];
                for k in 0..8 {
                    let product = i32::from(sig[k]) * i32::from(tile_sig[k][l]);
                    let down = (top[l] - exp[k] - tile_exp[k][l]) as u16;
                    let cut = product.unsigned_abs().checked_shr(u32::from(down)).unwrap_or(0) as i32;
                    let sign = product >> 31;
                    terms += (cut ^ sign) - sign;
                }
                sum[l] = terms;
            }
        }
        for l in 0..LANES {
            total[l] += f64::from(sum[l]);
        }
    }
    for l in 0..LANES {
        acc[l] = round(total[l], i32::from(top[l]) - p.fraction, p.keep, acc[l]);
    }
}

/// `sum · 2^lsb` toward zero, as [`super::Round::encode`]; an accumulator that is not finite stays.
#[inline(always)]
pub(super) fn round(sum: f64, lsb: i32, keep: u32, c: u32) -> u32 {
    let bits = sum.to_bits();
    let exp = ((bits >> 52) as i32 & 0x7ff) - 1023 + lsb;
    let fraction = (bits >> 29) as u32 & 0x007f_ffff;
    let normal = (((exp + 127) as u32) << 23) | fraction;
    // A sum of zero lands here too: its exponent is so small that nothing is left.
    let subnormal = (fraction | 0x0080_0000).checked_shr((-126 - exp) as u32).unwrap_or(0);
    let rounded = if exp < -126 { subnormal } else { normal };
    let magnitude = if exp > 127 { 0x7f80_0000 } else { rounded } & keep;
    let sign = (bits >> 32) as u32 & 0x8000_0000;
    let result = if magnitude == 0 { 0 } else { magnitude | sign };
    let c_magnitude = c & 0x7fff_ffff;
    let stays = if c_magnitude > 0x7f80_0000 { 0x7fff_ffff } else { c };
    if c_magnitude < 0x7f80_0000 { result } else { stays }
}

/// How far the significands of the two operands are shifted up.
pub(super) fn shifts<T: Code>(fraction: i32) -> (u32, u32) {
    let up = fraction as u32 - 2 * T::FRAC;
    (up.div_ceil(2), up / 2)
}
