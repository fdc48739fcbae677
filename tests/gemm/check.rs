//! What the tests of `gemm` and `marlin` share: the naive definition, its error bound, and batch invariance.

use std::ops::Range;

use half::{bf16, f16};
use vt_kernels::mma::{Accumulator, Format, Instruction, Operand, Unit};
use vt_kernels::{Arch, Element, Error, Result};

use crate::support::biteq::assert_biteq;

/// Architectures that have a GEMM arm.
pub const ARCHS: [Arch; 2] = [Arch::Sm90a, Arch::Sm121a];

/// Lengths of K about a slice's end, and about a step's.
pub const KS: [usize; 8] = [1, 15, 16, 17, 511, 512, 513, 1040];

/// An instruction that `arch` has, with f32 accumulator.
pub fn unit(arch: Arch, instruction: Instruction) -> Unit {
    Unit::new(arch, instruction, Accumulator::F32).unwrap()
}

/// Sums of the slices of `a · b`, each folded from zero through the definition of the unit's step; tails are zeros.
pub fn slice_sums(unit: &Unit, format: Format, slice: usize, a: &[u32], b: &[u32]) -> Vec<f32> {
    let padded = |x: &[u32]| {
        let mut x = x.to_vec();
        x.resize(x.len().next_multiple_of(unit.k), 0);
        x
    };
    let slices = a.chunks(slice).zip(b.chunks(slice));
    let sum = |(a, b): (&[u32], &[u32])| {
        let (a, b) = (padded(a), padded(b));
        let operand = |bits| Operand { format, bits, scale: None };
        f32::from_bits(unit.dot(operand(&a), operand(&b), 0).unwrap())
    };
    slices.map(sum).collect()
}

/// Slice sums of the bf16 GEMM and of both Marlin GEMMs.
pub fn bf16_sums(arch: Arch, a: &[bf16], b: &[bf16]) -> Vec<f32> {
    let bits = |x: &[bf16]| x.iter().map(|x| u32::from(x.to_bits())).collect::<Vec<_>>();
    slice_sums(&unit(arch, Instruction::MmaK16), Format::Bf16, 512, &bits(a), &bits(b))
}

/// Adds slice sums in ascending order, the first as it is.
pub fn ascending(sums: &[f32]) -> f32 {
    sums[1..].iter().fold(sums[0], |acc, sum| acc + sum)
}

/// `x` with each NaN as kernels store it.
pub fn stored(x: Vec<f32>) -> Vec<f32> {
    x.into_iter().map(<f32 as Element>::from_f32).collect()
}

/// How far the sum may be from the exact one. `mags[k]` is at least `|a b|` and at least two to the exponent that the unit
/// sees. A step of `terms` truncates each of them and the accumulator at `2^-fraction` of the largest, which is below
/// the sum of the magnitudes so far, and its result at `2^-kept`; an addition of slice sums rounds at `2^-24`.
pub fn bound(mags: &[f64], slice: usize, step: usize, terms: usize, fraction: i32, kept: i32) -> f64 {
    let one = (terms + 1) as f64 * 2f64.powi(-fraction) + 2f64.powi(-kept);
    let total: f64 = mags.iter().sum();
    let slices: f64 =
        mags.chunks(slice).map(|m| m.len().div_ceil(step) as f64 * one * m.iter().sum::<f64>()).sum();
    let joins = mags.len().div_ceil(slice) as f64 * 2f64.powi(-24) * total;
    // Errors of errors.
    (slices + joins) * 1.1
}

/// [`bound`] of the bf16 sums: slices of 512, steps of 16, F = 25, results truncated to f32.
pub fn bf16_bound(mags: &[f64]) -> f64 {
    bound(mags, 512, 16, 16, 25, 23)
}

/// `Err` naming the first value further from `want.0` than `want.1` and four roundings to f32.
pub fn within(name: &str, got: &[f32], want: &[(f64, f64)]) -> Result<(), String> {
    assert_eq!(got.len(), want.len(), "{name}");
    for (i, (&got, &(value, bound))) in got.iter().zip(want).enumerate() {
        let bound = bound + value.abs() * 2f64.powi(-22) + f64::from(f32::MIN_POSITIVE);
        let far = (f64::from(got) - value).abs();
        if far.is_nan() || far > bound {
            return Err(format!("{name}: {i}: got {got}, expected {value} within {bound:e}"));
        }
    }
    Ok(())
}

/// `gemm(rows, columns)` is the product of some rows of `a` and some rows of `b`. Each row alone, each tail of the
/// columns and the whole must agree in every bit: nothing depends on the batch or the tiling.
pub fn assert_invariant(m: usize, n: usize, gemm: impl Fn(Range<usize>, Range<usize>) -> Vec<f32>) {
    let whole = gemm(0..m, 0..n);
    for i in 0..m {
        assert_biteq("row alone", &gemm(i..i + 1, 0..n), &whole[i * n..(i + 1) * n]);
    }
    for from in [1, n / 2, n - 1] {
        let tails: Vec<f32> = whole.chunks(n).flat_map(|row| row[from..].to_vec()).collect();
        assert_biteq("fewer columns", &gemm(0..m, from..n), &tails);
    }
    assert_biteq("no rows", &gemm(0..0, 0..n), &[]);
}

/// The three outputs are the f32 one, rounded once.
pub fn assert_rounds_once(f32s: &[f32], bf16s: &[bf16], f16s: &[f16]) {
    let to = |x: &f32| (<bf16 as Element>::from_f32(*x), <f16 as Element>::from_f32(*x));
    let (want_bf16, want_f16): (Vec<_>, Vec<_>) = f32s.iter().map(to).unzip();
    assert_biteq("bf16", bf16s, &want_bf16);
    assert_biteq("f16", f16s, &want_f16);
}

/// `data` as rows `stride` apart with `poison` between them.
pub fn strided<T: Copy>(data: &[T], cols: usize, stride: usize, poison: T) -> Vec<T> {
    let row = |row: &[T]| {
        let mut row = row.to_vec();
        row.resize(stride, poison);
        row
    };
    data.chunks(cols).flat_map(row).collect()
}

/// The result is an error about `arg`.
#[track_caller]
pub fn assert_refuses<T: std::fmt::Debug>(result: Result<T>, arg: &str) {
    match result {
        Err(Error::Shape { arg: got, .. } | Error::Value { arg: got, .. }) => assert_eq!(got, arg),
        other => panic!("{other:?}, expected an error about {arg}"),
    }
}
