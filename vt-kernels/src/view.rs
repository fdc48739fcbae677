//! Borrowed two-dimensional views: rows at a stride, each row contiguous.
//!
//! A tensor of higher rank is a view whose columns hold the trailing dimensions: `x` of shape
//! `[total_tokens, n_heads, head_dim]` is `total_tokens` rows of `n_heads * head_dim` columns.

use std::ops::Range;

use crate::{Error, Result};

/// `rows` rows of `cols` elements, `stride` elements apart.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    stride: usize,
}

/// [`Rows`], to be written.
#[derive(Debug)]
pub struct RowsMut<'a, T> {
    data: &'a mut [T],
    rows: usize,
    cols: usize,
    stride: usize,
}

fn check(arg: &'static str, len: usize, rows: usize, cols: usize, stride: usize) -> Result<()> {
    let expected = || Error::shape(arg, &[len], format!("at least [{rows} rows of {cols}, stride {stride}]"));
    if stride < cols {
        return Err(Error::value(arg, format!("stride {stride}"), format!("at least {cols} columns")));
    }
    let needed = match rows {
        0 => 0,
        _ => (rows - 1).checked_mul(stride).and_then(|n| n.checked_add(cols)).ok_or_else(expected)?,
    };
    if len < needed { Err(expected()) } else { Ok(()) }
}

impl<'a, T> Rows<'a, T> {
    /// A contiguous view of all of `data`; `arg` names it in errors.
    pub fn new(arg: &'static str, data: &'a [T], rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(Error::shape(arg, &[data.len()], format!("[{rows}, {cols}]")));
        }
        Ok(Rows { data, rows, cols, stride: cols })
    }

    /// All of `data`, whose length the caller has checked.
    pub(crate) fn contiguous(data: &'a [T], rows: usize, cols: usize) -> Self {
        debug_assert_eq!(data.len(), rows * cols);
        Rows { data, rows, cols, stride: cols }
    }

    /// A view with `stride` elements from one row to the next.
    pub fn strided(
        arg: &'static str,
        data: &'a [T],
        rows: usize,
        cols: usize,
        stride: usize,
    ) -> Result<Self> {
        check(arg, data.len(), rows, cols, stride)?;
        Ok(Rows { data, rows, cols, stride })
    }

    /// The columns `range` of every row.
    pub fn columns(&self, arg: &'static str, range: Range<usize>) -> Result<Self> {
        if range.start > range.end || range.end > self.cols {
            return Err(Error::value(arg, format!("columns {range:?}"), format!("within 0..{}", self.cols)));
        }
        let start = range.start.min(self.data.len());
        Ok(Rows { data: &self.data[start..], rows: self.rows, cols: range.len(), stride: self.stride })
    }

    /// The rows `range`.
    pub fn slice(&self, arg: &'static str, range: Range<usize>) -> Result<Self> {
        if range.start > range.end || range.end > self.rows {
            return Err(Error::value(arg, format!("rows {range:?}"), format!("within 0..{}", self.rows)));
        }
        let start = (range.start * self.stride).min(self.data.len());
        Ok(Rows { data: &self.data[start..], rows: range.len(), cols: self.cols, stride: self.stride })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Elements from the start of one row to the start of the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Row `i`; panics if there is none, like indexing.
    #[inline]
    pub fn row(&self, i: usize) -> &'a [T] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        &self.data[i * self.stride..][..self.cols]
    }

    /// `Ok` if the view is `[rows, cols]`; `names` are the dimensions' names.
    pub fn expect(&self, arg: &'static str, rows: usize, cols: usize, names: &str) -> Result<()> {
        if (self.rows, self.cols) == (rows, cols) {
            return Ok(());
        }
        Err(Error::shape(arg, &[self.rows, self.cols], format!("{names} = [{rows}, {cols}]")))
    }
}

impl<'a, T> RowsMut<'a, T> {
    /// A contiguous view of all of `data`; `arg` names it in errors.
    pub fn new(arg: &'static str, data: &'a mut [T], rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(Error::shape(arg, &[data.len()], format!("[{rows}, {cols}]")));
        }
        Ok(RowsMut { data, rows, cols, stride: cols })
    }

    /// A view with `stride` elements from one row to the next; what lies between rows is not touched.
    pub fn strided(
        arg: &'static str,
        data: &'a mut [T],
        rows: usize,
        cols: usize,
        stride: usize,
    ) -> Result<Self> {
        check(arg, data.len(), rows, cols, stride)?;
        Ok(RowsMut { data, rows, cols, stride })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Elements from the start of one row to the start of the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Row `i`; panics if there is none, like indexing.
    #[inline]
    pub fn row(&self, i: usize) -> &[T] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        &self.data[i * self.stride..][..self.cols]
    }

    /// Row `i`, to be written; panics if there is none, like indexing.
    #[inline]
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        &mut self.data[i * self.stride..][..self.cols]
    }

    /// Every row in order; rows can then be shared out to threads.
    pub fn rows_mut(&mut self) -> Vec<&mut [T]> {
        let (rows, cols, stride) = (self.rows, self.cols, self.stride);
        if cols == 0 {
            return (0..rows).map(|_| Default::default()).collect();
        }
        self.data.chunks_mut(stride).take(rows).map(|row| &mut row[..cols]).collect()
    }

    /// The same view, borrowed for less long.
    pub fn reborrow(&mut self) -> RowsMut<'_, T> {
        RowsMut { data: self.data, rows: self.rows, cols: self.cols, stride: self.stride }
    }

    /// The view, to be read.
    pub fn as_rows(&self) -> Rows<'_, T> {
        Rows { data: self.data, rows: self.rows, cols: self.cols, stride: self.stride }
    }

    /// `Ok` if the view is `[rows, cols]`; `names` are the dimensions' names.
    pub fn expect(&self, arg: &'static str, rows: usize, cols: usize, names: &str) -> Result<()> {
        self.as_rows().expect(arg, rows, cols, names)
    }
}
