//! Matrices in host memory.

use vt_kernels::{Element, Error, Result, Rows, RowsMut};

/// A contiguous matrix `[rows, cols]`, row-major, in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix<T> {
    data: Vec<T>,
    rows: usize,
    cols: usize,
}

impl<T: Copy> Matrix<T> {
    /// A matrix filled with `value`.
    pub fn filled(value: T, rows: usize, cols: usize) -> Self {
        Matrix { data: vec![value; rows * cols], rows, cols }
    }

    /// [`Matrix::filled`] for a size that a user gives: an error if memory for it cannot be had.
    pub fn try_filled(arg: &'static str, value: T, rows: usize, cols: usize) -> Result<Self> {
        let mut data = Vec::new();
        let reserved = rows.checked_mul(cols).filter(|&len| data.try_reserve_exact(len).is_ok());
        let Some(len) = reserved else {
            return Err(Error::shape(arg, &[rows, cols], "a size that fits memory"));
        };
        data.resize(len, value);
        Ok(Matrix { data, rows, cols })
    }

    /// `data` as `[rows, cols]`; an error if its length is another.
    pub fn new(arg: &'static str, data: Vec<T>, rows: usize, cols: usize) -> Result<Self> {
        Rows::new(arg, &data, rows, cols)?;
        Ok(Matrix { data, rows, cols })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All elements, row after row.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// All elements, to be written.
    pub fn data_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// Row `i`; panics if there is none, like indexing.
    pub fn row(&self, i: usize) -> &[T] {
        &self.data[i * self.cols..][..self.cols]
    }

    /// The matrix as a kernel takes it; `arg` names it in errors.
    pub fn view(&self, arg: &'static str) -> Result<Rows<'_, T>> {
        Rows::new(arg, &self.data, self.rows, self.cols)
    }

    /// The matrix, to be written by a kernel.
    pub fn view_mut(&mut self, arg: &'static str) -> Result<RowsMut<'_, T>> {
        RowsMut::new(arg, &mut self.data, self.rows, self.cols)
    }
}

impl<T: Element> Matrix<T> {
    /// A matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self::filled(T::from_f32(0.0), rows, cols)
    }
}
