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

use tile::{Code, LANES, NONE, Tile};

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
pub(super) fn chain<const L: usize>(p: Params, sig: &[i16], exp: &[i16], tile: &Tile, acc: &mut Lanes) {
    let steps = sig.chunks_exact(L).zip(exp.chunks_exact(L));
    let tiles = tile.sig.chunks_exact(L).zip(tile.exp.chunks_exact(L));
    for ((sig, exp), (tile_sig, tile_exp)) in steps.zip(tiles) {
        step::<L>(p, sig, exp, tile_sig, tile_exp, acc);
    }
}

/// As [`chain`] for FP8 that runs as two steps of f16 from zero, added to `acc` to nearest even.
#[inline(always)]
pub(super) fn chain_two_halves(p: Params, sig: &[i16], exp: &[i16], tile: &Tile, acc: &mut Lanes) {
    let steps = sig.chunks_exact(32).zip(exp.chunks_exact(32));
    let tiles = tile.sig.chunks_exact(32).zip(tile.exp.chunks_exact(32));
    for ((sig, exp), (tile_sig, tile_exp)) in steps.zip(tiles) {
        let mut product = [0; LANES];
        step::<16>(p, &sig[..16], &exp[..16], &tile_sig[..16], &tile_exp[..16], &mut product);
        step::<16>(p, &sig[16..], &exp[16..], &tile_sig[16..], &tile_exp[16..], &mut product);
        for l in 0..LANES {
            let sum = f32::from_bits(acc[l]) + f32::from_bits(product[l]);
            acc[l] = if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() };
        }
    }
}

#[inline(always)]
fn step<const L: usize>(
    p: Params,
    sig: &[i16],
    exp: &[i16],
    tile_sig: &[[i16; LANES]],
    tile_exp: &[[i16; LANES]],
    acc: &mut Lanes,
) {
    let mut top = [p.floor; LANES];
    for (e, tile_e) in exp.iter().zip(tile_exp).take(L) {
        for l in 0..LANES {
            top[l] = top[l].max(e + tile_e[l]);
        }
    }
    let mut c_exp = [0i16; LANES];
    for l in 0..LANES {
        let magnitude = acc[l] & 0x7fff_ffff;
        let e = ((magnitude >> 23) as i16).max(1) - 127;
        c_exp[l] = if magnitude == 0 { NONE } else { e };
        top[l] = top[l].max(c_exp[l]);
    }
    // Two bits below those of f32 make room for F = 25; a smaller F cuts more.
    let mut total = [0f64; LANES];
    for l in 0..LANES {
        let magnitude = acc[l] & 0x7fff_ffff;
        let hidden = u32::from(magnitude >= 0x0080_0000) << 23;
        let c = ((magnitude & 0x007f_ffff) | hidden) << 2;
        let down = (i32::from(top[l]) - i32::from(c_exp[l]) + 25 - p.fraction) as u32;
        let c = c.checked_shr(down).unwrap_or(0) as i32;
        total[l] = f64::from(if acc[l] >> 31 == 1 { -c } else { c });
    }
    let half = L.min(16);
    for from in (0..L).step_by(half) {
        let mut sum = [0i32; LANES];
        for k in from..from + half {
            let (s, e) = (i32::from(sig[k]), exp[k]);
            let (tile_s, tile_e) = (&tile_sig[k], &tile_exp[k]);
            for l in 0..LANES {
                let product = s * i32::from(tile_s[l]);
                let down = (top[l] - e - tile_e[l]) as u16;
                let cut = product.unsigned_abs().checked_shr(u32::from(down)).unwrap_or(0) as i32;
                let sign = product >> 31;
                sum[l] += (cut ^ sign) - sign;
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
