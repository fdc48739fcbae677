//! What the GEMM references share: checks, groups of rows, tiles of output columns over threads, slices of K.

use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::{K_SLICE, Shape};
use crate::format::Nvfp4Ref;
use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported, mma};

/// Columns of an output tile, the work of one task: few enough that a single row keeps every thread busy, enough
/// that a row of `a` is seldom read again. No result depends on it.
const TILE: usize = 32;

/// The architectures that every GEMM but W4A4 has an arm for.
pub(crate) fn supported(kernel: &'static str, arch: Arch) -> Result<(), Unsupported> {
    match arch {
        Arch::Sm90a | Arch::Sm121a => Ok(()),
        Arch::Sm80 | Arch::Sm89 => {
            Err(Unsupported { kernel, arch, reason: "no device arm is planned".into() })
        }
    }
}

/// `Ok` if `n ≥ 1` and `k` is a positive multiple of `align`.
pub(crate) fn check_shape(shape: &Shape, align: usize) -> Result<()> {
    if shape.n == 0 {
        return Err(Error::value("n", 0, "at least 1"));
    }
    if shape.k == 0 || !shape.k.is_multiple_of(align) {
        return Err(Error::value("k", shape.k, format!("a positive multiple of {align}")));
    }
    Ok(())
}

/// `Ok` if there is no bias or one of `n` elements.
pub(crate) fn check_bias(bias: Option<&[f32]>, n: usize) -> Result<()> {
    match bias {
        Some(bias) if bias.len() != n => Err(Error::shape("bias", &[bias.len()], format!("[n] = [{n}]"))),
        _ => Ok(()),
    }
}

/// `Ok` if `x` is `[rows, cols]`; `names` are the dimensions' names.
pub(crate) fn expect_nvfp4(
    arg: &'static str,
    x: &Nvfp4Ref,
    rows: usize,
    cols: usize,
    names: &str,
) -> Result<()> {
    if (x.rows(), x.cols()) == (rows, cols) {
        return Ok(());
    }
    Err(Error::shape(arg, &[x.rows(), x.cols()], format!("{names} = [{rows}, {cols}]")))
}

/// `Ok` if the one-dimensional `arg` has an element for each of `groups`.
pub(crate) fn check_groups<T>(arg: &'static str, values: &[T], groups: usize) -> Result<()> {
    match values.len() == groups {
        true => Ok(()),
        false => Err(Error::shape(arg, &[values.len()], format!("[groups] = [{groups}]"))),
    }
}

/// `Ok` if `offsets` cuts `rows` rows into `groups` groups.
pub(crate) fn check_offsets(offsets: &[u32], groups: usize, rows: usize) -> Result<()> {
    if groups.checked_add(1) != Some(offsets.len()) {
        return Err(Error::shape("offsets", &[offsets.len()], format!("[groups + 1] = [{groups} + 1]")));
    }
    if let Some(e) = (0..groups).find(|&e| offsets[e] > offsets[e + 1]) {
        let got = format!("{} after {} at {}", offsets[e + 1], offsets[e], e + 1);
        return Err(Error::value("offsets", got, "ascending order"));
    }
    if offsets[0] != 0 {
        return Err(Error::value("offsets", format!("first is {}", offsets[0]), "0"));
    }
    if offsets[groups] as usize != rows {
        return Err(Error::value("offsets", format!("last is {}", offsets[groups]), format!("{rows} rows")));
    }
    Ok(())
}

/// Sizes of the groups between `offsets`.
pub(crate) fn sizes(offsets: &[u32]) -> impl Iterator<Item = usize> + '_ {
    offsets.windows(2).map(|w| (w[1] - w[0]) as usize)
}

/// Calls `run(e, range, rows)` for each group that is not empty: its index, which rows it has, and those of `out`.
pub(crate) fn grouped<O: Element>(
    out: &mut RowsMut<O>,
    sizes: impl Iterator<Item = usize>,
    run: impl Fn(usize, Range<usize>, Vec<&mut [O]>) -> Result<()> + Sync,
) -> Result<()> {
    let mut rows = out.rows_mut().into_iter();
    let mut start = 0;
    let group = |(e, size)| {
        let range = start..start + size;
        start = range.end;
        (e, range, rows.by_ref().take(size).collect::<Vec<_>>())
    };
    let groups: Vec<_> = sizes.enumerate().map(group).collect();
    groups.into_par_iter().try_for_each(|(e, range, rows)| run(e, range, rows))
}

/// `out[m, n] = round(finish(m, n, sum[m, n]))`, where `sums(columns, sum)` adds the sums of some columns to zeros.
pub(crate) fn run<O: Element>(
    out: Vec<&mut [O]>,
    sums: impl Fn(Range<usize>, &mut RowsMut<f32>) -> Result<()> + Sync,
    finish: impl Fn(usize, usize, f32) -> f32 + Sync,
) -> Result<()> {
    let m = out.len();
    let n = out.first().map_or(0, |row| row.len());
    let mut tiles: Vec<Vec<&mut [O]>> = (0..n.div_ceil(TILE)).map(|_| Vec::with_capacity(m)).collect();
    for row in out {
        tiles.iter_mut().zip(row.chunks_mut(TILE)).for_each(|(tile, part)| tile.push(part));
    }
    tiles.into_par_iter().enumerate().try_for_each(|(t, rows)| {
        let columns = t * TILE..n.min((t + 1) * TILE);
        let mut sum = vec![0.0; m * columns.len()];
        sums(columns.clone(), &mut RowsMut::new("sum", &mut sum, m, columns.len())?)?;
        for ((i, row), sum) in rows.into_iter().enumerate().zip(sum.chunks(columns.len())) {
            for ((n, o), &sum) in columns.clone().zip(row).zip(sum) {
                *o = O::from_f32(finish(i, n, sum));
            }
        }
        Ok(())
    })
}

/// `value + bias[n]`, or `value` where there is no bias.
#[inline(always)]
pub(crate) fn add_bias(value: f32, bias: Option<&[f32]>, n: usize) -> f32 {
    match bias {
        Some(bias) => value + bias[n],
        None => value,
    }
}

/// Folds each slice of `0..k` from zero and adds the slice sums in ascending order; `sum` comes in as zeros.
pub(crate) fn sliced(
    k: usize,
    slice: usize,
    sum: &mut RowsMut<f32>,
    fold: impl Fn(Range<usize>, &mut RowsMut<f32>) -> Result<()>,
) -> Result<()> {
    fold(0..k.min(slice), sum)?;
    let (m, n) = (sum.rows(), sum.cols());
    let mut scratch = vec![0.0; m * n];
    for start in (slice..k).step_by(slice) {
        scratch.fill(0.0);
        let mut part = RowsMut::new("slice", &mut scratch, m, n)?;
        fold(start..k.min(start + slice), &mut part)?;
        for i in 0..m {
            sum.row_mut(i).iter_mut().zip(part.row(i)).for_each(|(sum, part)| *sum += part);
        }
    }
    Ok(())
}

/// The sum that the bf16 GEMM and both Marlin GEMMs share: slices of [`K_SLICE`], each a fold of m16n8k16 steps.
pub(crate) fn sum_bf16(arch: Arch, a: Rows<bf16>, b: Rows<bf16>, sum: &mut RowsMut<f32>) -> Result<()> {
    sliced(a.cols(), K_SLICE, sum, |k, part| {
        mma::fold::bf16(arch, a.columns("a", k.clone())?, b.columns("b", k)?, part)
    })
}
