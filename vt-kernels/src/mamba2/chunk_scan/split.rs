//! f32 factors as bf16 terms for the tensor cores.

use half::bf16;

use crate::host::dispatch;
use crate::mma::fold;
use crate::{Arch, DType, Element, Result, Rows, RowsMut};

/// Elements along K of one MMA step.
pub(super) const STEP: usize = 16;

/// Values with K outermost, `[k, width]`, each a bf16 or the sum of two.
pub(super) struct Factor {
    k: usize,
    width: usize,
    hi: Vec<bf16>,
    lo: Option<Vec<bf16>>,
}

impl Factor {
    /// `value(k, i)` for `k` in `0..depth`, `i` in `0..width`; `exact` if all are bf16 already.
    pub(super) fn new(depth: usize, width: usize, exact: bool, value: impl Fn(usize, usize) -> f32) -> Self {
        let mut values = vec![0.0f32; depth * width];
        dispatch(
            #[inline(always)]
            || {
                for (k, row) in values.chunks_exact_mut(width).enumerate() {
                    for (i, v) in row.iter_mut().enumerate() {
                        *v = value(k, i);
                    }
                }
            },
        );
        let hi: Vec<bf16> = values.iter().map(|&v| Element::from_f32(v)).collect();
        let rest = |(v, hi): (&f32, &bf16)| Element::from_f32(remainder(*v, hi.to_f32()));
        let lo = (!exact).then(|| values.iter().zip(&hi).map(rest).collect());
        Factor { k: depth, width, hi, lo }
    }

    /// Whether no term is ∞ or NaN; an f32 above bf16's range has ∞ as its hi.
    pub(super) fn finite(&self) -> bool {
        self.hi.iter().all(|hi| hi.is_finite())
    }

    fn term(&self, second: bool) -> &[bf16] {
        match (&self.lo, second) {
            (Some(lo), true) => lo,
            _ => &self.hi,
        }
    }
}

/// Whether values of this type are bf16 already.
pub(super) fn exact<T: Element>() -> bool {
    T::DTYPE == DType::Bf16
}

/// What `hi` leaves of `v`; nothing where `hi` is not finite, which carries the value then.
fn remainder(v: f32, hi: f32) -> f32 {
    if hi.is_finite() { v - hi } else { 0.0 }
}

/// `acc[m, n] += Σ_k a[k, m] · b[k, n]` over the first `depth` of K, in steps of 16: for each step hi·hi, hi·lo,
/// lo·hi.
pub(super) fn fold(
    arch: Arch,
    depth: usize,
    a: &Factor,
    b: &Factor,
    acc: &mut RowsMut<'_, f32>,
) -> Result<()> {
    debug_assert!(depth <= a.k && depth <= b.k);
    let mut terms = vec![(false, false)];
    if b.lo.is_some() {
        terms.push((false, true));
    }
    if a.lo.is_some() {
        terms.push((true, false));
    }
    let steps = depth.div_ceil(STEP);
    let k = steps * terms.len() * STEP;
    let mut left = vec![bf16::ZERO; a.width * k];
    let mut right = vec![bf16::ZERO; k * b.width];
    for step in 0..steps {
        for (t, &(a_lo, b_lo)) in terms.iter().enumerate() {
            let at = (step * terms.len() + t) * STEP;
            let rows = step * STEP..depth.min((step + 1) * STEP);
            let count = rows.len();
            let source = &b.term(b_lo)[rows.start * b.width..rows.end * b.width];
            right[at * b.width..][..count * b.width].copy_from_slice(source);
            let source = &a.term(a_lo)[rows.start * a.width..rows.end * a.width];
            for (j, row) in source.chunks_exact(a.width).enumerate() {
                for (m, &value) in row.iter().enumerate() {
                    left[m * k + at + j] = value;
                }
            }
        }
    }
    let (left, right) = (Rows::new("a", &left, a.width, k)?, Rows::new("b", &right, k, b.width)?);
    fold::bf16_kn(arch, left, right, acc)
}
