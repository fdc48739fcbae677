//! Matrices with poison between their rows.

use vt_kernels::{Element, Rows, RowsMut};

use super::biteq::{Bits, biteq};
use super::strategies::Rng;

/// `rows` rows of `cols` elements, `pad` elements of poison after each.
#[derive(Clone, Debug)]
pub struct Padded<T> {
    data: Vec<T>,
    rows: usize,
    cols: usize,
    stride: usize,
    poison: T,
}

impl<T: Copy + Bits> Padded<T> {
    /// Filled row after row from `value`.
    pub fn new(rows: usize, cols: usize, pad: usize, poison: T, mut value: impl FnMut() -> T) -> Self {
        let stride = cols + pad;
        let data = (0..rows * stride).map(|at| if at % stride < cols { value() } else { poison }).collect();
        Padded { data, rows, cols, stride, poison }
    }

    pub fn view(&self) -> Rows<'_, T> {
        Rows::strided("view", &self.data, self.rows, self.cols, self.stride).unwrap()
    }

    pub fn view_mut(&mut self) -> RowsMut<'_, T> {
        RowsMut::strided("view", &mut self.data, self.rows, self.cols, self.stride).unwrap()
    }

    /// Elements without the poison.
    pub fn values(&self) -> Vec<T> {
        (0..self.rows).flat_map(|i| self.view().row(i).to_vec()).collect()
    }

    pub fn row(&self, i: usize) -> Vec<T> {
        self.view().row(i).to_vec()
    }

    /// The rows `rows`, without poison.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Padded<T> {
        let mut values = rows.clone().flat_map(|i| self.row(i));
        Padded::new(rows.len(), self.cols, 0, self.poison, || values.next().unwrap())
    }

    /// Panics if something was written between the rows.
    pub fn assert_padding(&self) {
        let padding = (0..self.data.len()).filter(|at| at % self.stride >= self.cols);
        let padding: Vec<T> = padding.map(|at| self.data[at]).collect();
        biteq("padding", &padding, &vec![self.poison; padding.len()]).unwrap();
    }
}

impl<T: Element + Bits> Padded<T> {
    /// Roughly normal values, NaN as poison.
    pub fn normal(rng: &mut Rng, rows: usize, cols: usize, pad: usize, scale: f32) -> Self {
        Padded::new(rows, cols, pad, T::from_f32(f32::NAN), || T::from_f32(rng.normal(scale)))
    }

    /// Normal values with every kind of extreme among them.
    pub fn extreme(rng: &mut Rng, rows: usize, cols: usize, pad: usize) -> Self {
        Padded::new(rows, cols, pad, T::from_f32(f32::NAN), || T::from_f32(extreme(rng)))
    }

    /// Poison everywhere: for outputs.
    pub fn poisoned(rows: usize, cols: usize, pad: usize) -> Self {
        Padded::new(rows, cols, pad, T::from_f32(f32::NAN), || T::from_f32(f32::NAN))
    }

    /// Elements as f64, without the poison.
    pub fn f64s(&self) -> Vec<f64> {
        self.values().iter().map(|x| f64::from(x.to_f32())).collect()
    }
}

/// A normal value three times of four, else zeros, subnormals, huge values, infinities or NaN.
pub fn extreme(rng: &mut Rng) -> f32 {
    const SPECIAL: [f32; 11] = [
        0.0,
        -0.0,
        1e-40,
        -1e-40,
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-20,
        1e20,
    ];
    if rng.below(4) > 0 { rng.normal(1.0) } else { SPECIAL[rng.below(SPECIAL.len())] }
}

/// `Err` naming the first value further from `want` than `bound(want)`.
pub fn within(got: &[f64], want: &[f64], bound: impl Fn(f64) -> f64) -> Result<(), String> {
    assert_eq!(got.len(), want.len());
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let far = (got - want).abs();
        if far.is_nan() || far > bound(want) {
            return Err(format!("{i}: got {got}, expected {want} within {:e}", bound(want)));
        }
    }
    Ok(())
}

/// The result is an error about `arg`.
#[track_caller]
pub fn assert_refuses<T: std::fmt::Debug>(result: vt_kernels::Result<T>, arg: &str) {
    use vt_kernels::Error;
    match result {
        Err(Error::Shape { arg: got, .. } | Error::Value { arg: got, .. }) => assert_eq!(got, arg),
        other => panic!("{other:?}, expected an error about {arg}"),
    }
}
