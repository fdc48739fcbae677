//! The grouped step of NVFP4 over lanes of output columns.
//!
//! A group of 16 products is an exact integer in quarters; times the product of its scales it still fits
//! 32 bits. Aligned terms and their sum fit 64 bits, and f64 holds the sum exactly.

use std::ops::Range;

use super::tile::{LANES, NONE};
use super::{Lanes, round};
use crate::format::Nvfp4Ref;
use crate::mma::{Format, Operand, Unit};
use crate::{Result, RowsMut};

/// Values of `k` decoded at a time, and rows of `a` that share them.
const BLOCK: usize = 512;
const ROWS: usize = 64;
/// Values in a group.
const GROUP: usize = 16;
/// `F` and `E0`.
const FRACTION: i32 = 35;
const FLOOR: i16 = -139;

/// Twice the value of an e2m1 code.
const TWICE: [i16; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Both values of a byte, low nibble first.
static PAIRS: [[i16; 2]; 256] = {
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [TWICE[byte & 15], TWICE[byte >> 4]];
        byte += 1;
    }
    table
};

/// `N` rows of a block of `k`, decoded, `k`-major.
#[derive(Debug)]
struct Tile<const N: usize> {
    /// By pairs of `k`.
    pairs: Vec<[[i16; 2]; N]>,
    groups: Vec<Group<N>>,
    special: [bool; N],
}

/// A group's scales and which of its values are not zero.
#[derive(Clone, Copy, Debug)]
struct Group<const N: usize> {
    sig: [i16; N],
    exp: [i16; N],
    present: [u16; N],
}

impl<const N: usize> Tile<N> {
    fn new() -> Self {
        Tile { pairs: Vec::new(), groups: Vec::new(), special: [false; N] }
    }

    /// Decodes rows `rows` of `x`; a tail of `ks` is padded to whole instructions.
    #[inline(always)]
    fn decode(&mut self, x: &Nvfp4Ref<'_>, rows: Range<usize>, ks: Range<usize>, padded: usize) {
        let empty = Group { sig: [0; N], exp: [NONE; N], present: [0; N] };
        self.pairs.clear();
        self.pairs.resize(padded / 2, [[0; 2]; N]);
        self.groups.clear();
        self.groups.resize(padded / GROUP, empty);
        self.special = [false; N];
        for (l, i) in rows.enumerate() {
            let bytes = &x.packed_row(i)[ks.start / 2..ks.end / 2];
            let scales = &x.scales_row(i)[ks.start / GROUP..ks.end / GROUP];
            for (pair, &byte) in self.pairs.iter_mut().zip(bytes) {
                pair[l] = PAIRS[usize::from(byte)];
            }
            for ((group, bytes), &scale) in
                self.groups.iter_mut().zip(bytes.chunks_exact(GROUP / 2)).zip(scales)
            {
                let code = i16::from(scale & 0x7f);
                let field = code >> 3;
                group.sig[l] = (code & 7) | i16::from(field != 0) << 3;
                group.exp[l] = if code == 0 { NONE } else { field.max(1) - 7 };
                group.present[l] = bytes.iter().enumerate().fold(0, |present, (i, &byte)| {
                    let (low, high) = (u16::from(byte & 7 != 0), u16::from(byte & 0x70 != 0));
                    present | (low | high << 1) << (2 * i)
                });
                self.special[l] |= code == 0x7f;
            }
        }
    }
}

/// `acc` folded with `a` `[M, K]` times `b` `[N, K]`. Shapes fit.
pub(crate) fn fold(unit: &Unit, a: Nvfp4Ref<'_>, b: Nvfp4Ref<'_>, acc: &mut RowsMut<'_, f32>) -> Result<()> {
    pulp::Arch::new().dispatch(Fold { unit, a, b, acc })
}

/// The arguments of [`fold`]: compiled once for each instruction set of the host.
struct Fold<'a, 'b> {
    unit: &'a Unit,
    a: Nvfp4Ref<'a>,
    b: Nvfp4Ref<'a>,
    acc: &'a mut RowsMut<'b, f32>,
}

impl pulp::NullaryFnOnce for Fold<'_, '_> {
    type Output = Result<()>;

    #[inline(always)]
    fn call(self) -> Result<()> {
        drive(self.unit, &self.a, &self.b, self.acc)
    }
}

#[inline(always)]
fn drive(unit: &Unit, a: &Nvfp4Ref<'_>, b: &Nvfp4Ref<'_>, acc: &mut RowsMut<'_, f32>) -> Result<()> {
    let (m, n, k) = (a.rows(), b.rows(), a.cols());
    let mut rows: Vec<Tile<1>> = (0..ROWS.min(m)).map(|_| Tile::new()).collect();
    let mut tile = Tile::<LANES>::new();
    for from in (0..k).step_by(BLOCK) {
        let ks = from..k.min(from + BLOCK);
        let padded = ks.len().next_multiple_of(unit.k);
        for first in (0..m).step_by(ROWS) {
            let ms = first..m.min(first + ROWS);
            for (row, i) in rows.iter_mut().zip(ms.clone()) {
                row.decode(a, i..i + 1, ks.clone(), padded);
            }
            for left in (0..n).step_by(LANES) {
                let ns = left..n.min(left + LANES);
                tile.decode(b, ns.clone(), ks.clone(), padded);
                for (row, i) in rows.iter().zip(ms.clone()) {
                    let out = &mut acc.row_mut(i)[ns.clone()];
                    let mut lanes = [0; LANES];
                    for (lane, c) in lanes.iter_mut().zip(&*out) {
                        *lane = c.to_bits();
                    }
                    chain(row, &tile, &mut lanes);
                    for l in (0..out.len()).filter(|&l| row.special[0] || tile.special[l]) {
                        lanes[l] = defined(unit, (a, i), (b, left + l), ks.clone(), out[l].to_bits())?;
                    }
                    for (c, lane) in out.iter_mut().zip(lanes) {
                        *c = f32::from_bits(lane);
                    }
                }
            }
        }
    }
    Ok(())
}

#[inline(always)]
fn chain(row: &Tile<1>, tile: &Tile<LANES>, acc: &mut Lanes) {
    let pairs = row.pairs.chunks_exact(32).zip(tile.pairs.chunks_exact(32));
    let groups = row.groups.chunks_exact(4).zip(tile.groups.chunks_exact(4));
    for ((row_pairs, tile_pairs), (row_groups, tile_groups)) in pairs.zip(groups) {
        let (mut sums, mut exps) = ([[0i32; LANES]; 4], [[NONE; LANES]; 4]);
        let mut top = [FLOOR; LANES];
        for g in 0..4 {
            for pair in 8 * g..8 * g + 8 {
                let ([x, y], tile) = (row_pairs[pair][0], &tile_pairs[pair]);
                for l in 0..LANES {
                    let [u, v] = tile[l];
                    sums[g][l] += i32::from(x) * i32::from(u) + i32::from(y) * i32::from(v);
                }
            }
            let (x, y) = (&row_groups[g], &tile_groups[g]);
            for l in 0..LANES {
                sums[g][l] *= i32::from(x.sig[0] * y.sig[l]);
                let empty = x.present[0] & y.present[l] == 0;
                exps[g][l] = if empty { NONE } else { x.exp[0] + y.exp[l] };
                top[l] = top[l].max(exps[g][l]);
            }
        }
        finish(&sums, &exps, &top, acc);
    }
}

/// Adds the groups' terms, which have 2 + 6 fraction bits, and the accumulator.
#[inline(always)]
fn finish(sums: &[[i32; LANES]; 4], exps: &[[i16; LANES]; 4], top: &[i16; LANES], acc: &mut Lanes) {
    for l in 0..LANES {
        let magnitude = acc[l] & 0x7fff_ffff;
        let exp = if magnitude == 0 { NONE } else { ((magnitude >> 23) as i16).max(1) - 127 };
        let top = top[l].max(exp);
        let hidden = u32::from(magnitude >= 0x0080_0000) << 23;
        let c = u64::from((magnitude & 0x007f_ffff) | hidden) << (FRACTION - 23);
        let c = c.checked_shr((top - exp) as u32).unwrap_or(0) as i64;
        let mut total = if acc[l] >> 31 == 1 { -c } else { c };
        for g in 0..4 {
            let term = u64::from(sums[g][l].unsigned_abs()) << (FRACTION - 8);
            let cut = term.checked_shr((top - exps[g][l]) as u32).unwrap_or(0) as i64;
            let sign = i64::from(sums[g][l] >> 31);
            total += (cut ^ sign) - sign;
        }
        acc[l] = round(total as f64, i32::from(top) - FRACTION, !0, acc[l]);
    }
}

/// One accumulator by the definition.
#[cold]
fn defined(
    unit: &Unit,
    (a, i): (&Nvfp4Ref<'_>, usize),
    (b, j): (&Nvfp4Ref<'_>, usize),
    ks: Range<usize>,
    c: u32,
) -> Result<u32> {
    let padded = ks.len().next_multiple_of(unit.k);
    let codes = |x: &Nvfp4Ref<'_>, row: usize| {
        let bytes = &x.packed_row(row)[ks.start / 2..ks.end / 2];
        let mut codes: Vec<u32> =
            bytes.iter().flat_map(|&x| [u32::from(x & 15), u32::from(x >> 4)]).collect();
        codes.resize(padded, 0);
        let mut scales = x.scales_row(row)[ks.start / GROUP..ks.end / GROUP].to_vec();
        scales.resize(padded / GROUP, 0);
        (codes, scales)
    };
    let ((a, scales_a), (b, scales_b)) = (codes(a, i), codes(b, j));
    let operand = |bits, scales| Operand { format: Format::E2m1, bits, scale: Some((Format::Ue4m3, scales)) };
    unit.dot(operand(&a, &scales_a), operand(&b, &scales_b), c)
}
