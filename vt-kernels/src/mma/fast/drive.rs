//! Matrices through the fast steps: blocks of `k`, rows and columns.

use std::ops::Range;

use super::tile::{Code, LANES, Row, Tile};
use super::{Params, chain, chain_two_halves, shifts};
use crate::mma::{Operand, Path, Round, Unit};
use crate::{Result, Rows, RowsMut};

/// Values of `k` decoded at a time: a tile of them stays in the first cache.
const BLOCK: usize = 128;
/// Rows of `a` that share a decoded tile.
const ROWS: usize = 64;

/// The second operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Columns<'a, T> {
    /// `[N, K]`.
    Nk(Rows<'a, T>),
    /// `[K, N]`.
    Kn(Rows<'a, T>),
}

/// `acc` folded with `a` `[M, K]` times `b` through `unit`, whose steps have `L` products. Shapes fit.
pub(crate) fn fold<C: Code, const L: usize, const TWO_HALVES: bool>(
    unit: &Unit,
    a: Rows<'_, C::Source>,
    b: Columns<'_, C::Source>,
    acc: &mut RowsMut<'_, f32>,
) -> Result<()> {
    pulp::Arch::new().dispatch(Fold::<C, L, TWO_HALVES> { unit, a, b, acc })
}

/// The arguments of [`fold`]: compiled once for each instruction set of the host.
struct Fold<'a, 'b, C: Code, const L: usize, const TWO_HALVES: bool> {
    unit: &'a Unit,
    a: Rows<'a, C::Source>,
    b: Columns<'a, C::Source>,
    acc: &'a mut RowsMut<'b, f32>,
}

impl<C: Code, const L: usize, const TWO_HALVES: bool> pulp::NullaryFnOnce for Fold<'_, '_, C, L, TWO_HALVES> {
    type Output = Result<()>;

    #[inline(always)]
    fn call(self) -> Result<()> {
        drive::<C, L, TWO_HALVES>(self.unit, self.a, self.b, self.acc)
    }
}

#[inline(always)]
fn drive<C: Code, const L: usize, const TWO_HALVES: bool>(
    unit: &Unit,
    a: Rows<'_, C::Source>,
    b: Columns<'_, C::Source>,
    acc: &mut RowsMut<'_, f32>,
) -> Result<()> {
    debug_assert_eq!((unit.products, unit.path == Path::TwoHalves), (L, TWO_HALVES));
    let keep = if unit.round == Round::RzE8m13 { !0x3ff } else { !0 };
    let params = Params { fraction: unit.fraction, floor: unit.floor as i16, keep };
    let (up_a, up_b) = shifts::<C>(unit.fraction);
    let (m, n, k) = (a.rows(), acc.cols(), a.cols());
    let mut rows: Vec<Row> = (0..ROWS.min(m)).map(|_| Row::new()).collect();
    let (mut tile, mut line, mut codes) = (Tile::new(), Vec::new(), Vec::new());
    for from in (0..k).step_by(BLOCK) {
        let ks = from..k.min(from + BLOCK);
        let padded = ks.len().next_multiple_of(unit.k);
        for first in (0..m).step_by(ROWS) {
            let ms = first..m.min(first + ROWS);
            for (row, i) in rows.iter_mut().zip(ms.clone()) {
                line.clear();
                line.resize(padded, 0);
                for (k, &x) in a.row(i)[ks.clone()].iter().enumerate() {
                    line[place::<TWO_HALVES>(k)] = C::code(x);
                }
                row.decode::<C>(&line, up_a);
            }
            for left in (0..n).step_by(LANES) {
                let ns = left..n.min(left + LANES);
                codes.clear();
                codes.resize(padded, [0; LANES]);
                b.gather::<C, TWO_HALVES>(ns.clone(), ks.clone(), &mut codes);
                tile.decode::<C>(&codes, up_b);
                let odd_tile = tile.special.contains(&true);
                for (row, i) in rows.iter().zip(ms.clone()) {
                    let out = &mut acc.row_mut(i)[ns.clone()];
                    let mut lanes = [0; LANES];
                    for (lane, c) in lanes.iter_mut().zip(&*out) {
                        *lane = c.to_bits();
                    }
                    if TWO_HALVES {
                        chain_two_halves(params, row, &tile, &mut lanes);
                    } else {
                        chain::<L>(params, row, &tile, &mut lanes);
                    }
                    if row.special || odd_tile {
                        let odd = (0..out.len()).filter(|&l| row.special || tile.special[l]);
                        for l in odd {
                            let column = b.column::<C>(left + l, ks.clone());
                            let c = out[l].to_bits();
                            lanes[l] = defined::<C>(unit, &a.row(i)[ks.clone()], column, c)?;
                        }
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

/// Where value `k` of a block goes, so that the two halves of FP8 as f16 lie one after the other.
#[inline(always)]
fn place<const TWO_HALVES: bool>(k: usize) -> usize {
    if TWO_HALVES { k / 32 * 32 + k % 4 / 2 * 16 + k % 32 / 4 * 2 + k % 2 } else { k }
}

impl<T: Copy> Columns<'_, T> {
    #[inline(always)]
    fn gather<C: Code<Source = T>, const TWO_HALVES: bool>(
        &self,
        ns: Range<usize>,
        ks: Range<usize>,
        codes: &mut [[u16; LANES]],
    ) {
        match self {
            Columns::Nk(b) => {
                for (l, n) in ns.enumerate() {
                    for (k, &x) in b.row(n)[ks.clone()].iter().enumerate() {
                        codes[place::<TWO_HALVES>(k)][l] = C::code(x);
                    }
                }
            }
            Columns::Kn(b) => {
                for (at, k) in ks.enumerate() {
                    let codes = &mut codes[place::<TWO_HALVES>(at)];
                    for (code, &x) in codes.iter_mut().zip(&b.row(k)[ns.clone()]) {
                        *code = C::code(x);
                    }
                }
            }
        }
    }

    fn column<C: Code<Source = T>>(&self, n: usize, ks: Range<usize>) -> Vec<u32> {
        match self {
            Columns::Nk(b) => b.row(n)[ks].iter().map(|&x| C::bits(x)).collect(),
            Columns::Kn(b) => ks.map(|k| C::bits(b.row(k)[n])).collect(),
        }
    }
}

/// One accumulator by the definition.
#[cold]
fn defined<C: Code>(unit: &Unit, a: &[C::Source], mut b: Vec<u32>, c: u32) -> Result<u32> {
    let mut a: Vec<u32> = a.iter().map(|&x| C::bits(x)).collect();
    let padded = a.len().next_multiple_of(unit.k);
    a.resize(padded, 0);
    b.resize(padded, 0);
    let operand = |bits| Operand { format: C::FORMAT, bits, scale: None };
    unit.dot(operand(&a), operand(&b), c)
}
