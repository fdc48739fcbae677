//! Layouts of scale factors as types.

use crate::{Error, Result};

/// Scales `[rows, cols]`, row after row, as checkpoints hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMajor {
    rows: usize,
    cols: usize,
}

/// Scales `[rows, cols]` in tiles of 128 × 4, as block-scaled MMA kernels read them (CUTLASS's `Sm1xx` scale-factor
/// layout, cuBLAS's 1D block scaling).
///
/// Rows are padded to 128, columns to 4. Tiles follow each other along a row of tiles; in a tile, byte
/// `(row % 32) · 16 + (row / 32) · 4 + col`. Padding is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwizzledScales128x4 {
    rows: usize,
    cols: usize,
}

fn elements(rows: usize, cols: usize) -> Result<usize> {
    rows.checked_mul(cols).ok_or_else(|| Error::shape("scales", &[rows, cols], "a size that fits memory"))
}

impl RowMajor {
    /// The layout of `rows` × `cols` scales.
    pub fn new(rows: usize, cols: usize) -> Result<Self> {
        elements(rows, cols).map(|_| RowMajor { rows, cols })
    }

    /// Number of scales.
    pub fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the scale of a row and block is; panics outside the shape, like indexing.
    pub fn offset(&self, row: usize, col: usize) -> usize {
        assert!(row < self.rows && col < self.cols, "({row}, {col}) of [{}, {}]", self.rows, self.cols);
        row * self.cols + col
    }
}

impl SwizzledScales128x4 {
    /// The layout of `rows` × `cols` scales.
    pub fn new(rows: usize, cols: usize) -> Result<Self> {
        let padded = rows.checked_next_multiple_of(128).zip(cols.checked_next_multiple_of(4));
        match padded.and_then(|(rows, cols)| rows.checked_mul(cols)) {
            Some(_) => Ok(SwizzledScales128x4 { rows, cols }),
            None => Err(Error::shape("scales", &[rows, cols], "a size that fits memory")),
        }
    }

    /// Number of scales with padding.
    pub fn len(&self) -> usize {
        self.rows.next_multiple_of(128) * self.cols.next_multiple_of(4)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the scale of a row and block is; panics outside the shape, like indexing.
    pub fn offset(&self, row: usize, col: usize) -> usize {
        assert!(row < self.rows && col < self.cols, "({row}, {col}) of [{}, {}]", self.rows, self.cols);
        let tile = row / 128 * self.cols.div_ceil(4) + col / 4;
        tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4
    }

    /// Moves row-major scales into this layout and zeroes the padding.
    pub fn swizzle(&self, row_major: &[u8], swizzled: &mut [u8]) -> Result<()> {
        self.check(row_major.len(), swizzled.len())?;
        swizzled.fill(0);
        for row in 0..self.rows {
            for col in 0..self.cols {
                swizzled[self.offset(row, col)] = row_major[row * self.cols + col];
            }
        }
        Ok(())
    }

    /// Moves scales out of this layout; padding is not read.
    pub fn unswizzle(&self, swizzled: &[u8], row_major: &mut [u8]) -> Result<()> {
        self.check(row_major.len(), swizzled.len())?;
        for row in 0..self.rows {
            for col in 0..self.cols {
                row_major[row * self.cols + col] = swizzled[self.offset(row, col)];
            }
        }
        Ok(())
    }

    fn check(&self, row_major: usize, swizzled: usize) -> Result<()> {
        if row_major != self.rows * self.cols {
            let expected = format!("[{}, {}]", self.rows, self.cols);
            return Err(Error::shape("row_major", &[row_major], expected));
        }
        if swizzled != self.len() {
            return Err(Error::shape("swizzled", &[swizzled], format!("[{}] with padding", self.len())));
        }
        Ok(())
    }
}
