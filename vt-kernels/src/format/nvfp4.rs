//! NVFP4 tensors: packed e2m1 values, one ue4m3 scale for 16 of them along K, one f32 scale for all.

use std::ops::Range;
use std::sync::LazyLock;

use half::bf16;

use super::{E2m1, NVFP4_BLOCK, Ue4m3};
use crate::{Error, Result, Rows};

/// An NVFP4 matrix `[rows, cols]` that owns its data: a weight `[N, K]`.
///
/// Element `(i, j)` is `e2m1 · scale(i, j / 16) · global_scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct Nvfp4 {
    packed: Vec<u8>,
    scales: Vec<u8>,
    rows: usize,
    cols: usize,
    global_scale: f32,
}

/// A borrowed [`Nvfp4`], strided.
#[derive(Clone, Copy, Debug)]
pub struct Nvfp4Ref<'a> {
    packed: Rows<'a, u8>,
    scales: Rows<'a, u8>,
    global_scale: f32,
}

impl Nvfp4 {
    /// A matrix of packed codes `[rows, cols / 2]`, low nibble first, and ue4m3 scales `[rows, cols / 16]`.
    ///
    /// # Errors
    /// `cols` no multiple of 16, lengths that do not fit, a NaN block scale, a global scale that is negative or
    /// not finite.
    pub fn new(
        arg: &'static str,
        rows: usize,
        cols: usize,
        packed: Vec<u8>,
        scales: Vec<u8>,
        global_scale: f32,
    ) -> Result<Self> {
        let view = Nvfp4Ref::new(
            arg,
            Rows::new(arg, &packed, rows, cols / 2)?,
            Rows::new(arg, &scales, rows, cols / NVFP4_BLOCK)?,
            global_scale,
        )?;
        if view.cols() != cols {
            return Err(Error::value(arg, format!("{cols} columns"), "a multiple of 16"));
        }
        if !(global_scale.is_finite() && global_scale >= 0.0) {
            return Err(Error::value(arg, format!("global scale {global_scale}"), "finite, at least 0"));
        }
        if let Some(at) = scales.iter().position(|scale| scale & 0x7f == 0x7f) {
            return Err(Error::value(arg, format!("a NaN block scale at {at}"), "a number"));
        }
        Ok(Nvfp4 { packed, scales, rows, cols, global_scale })
    }

    /// Number of rows, N of a weight.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements in a row, K of a weight.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The scale of all elements.
    pub fn global_scale(&self) -> f32 {
        self.global_scale
    }

    /// Bytes of codes, block scales and the global scale.
    pub fn bytes(&self) -> usize {
        self.packed.len() + self.scales.len() + 4
    }

    /// The matrix, borrowed.
    pub fn view(&self) -> Nvfp4Ref<'_> {
        let (packed, scales) = (self.cols / 2, self.cols / NVFP4_BLOCK);
        Nvfp4Ref {
            packed: Rows::contiguous(&self.packed, self.rows, packed),
            scales: Rows::contiguous(&self.scales, self.rows, scales),
            global_scale: self.global_scale,
        }
    }
}

impl<'a> Nvfp4Ref<'a> {
    /// A matrix of packed codes `[rows, cols / 2]` and ue4m3 scales `[rows, cols / 16]`. Values are not looked
    /// at: an activation's scale may be NaN.
    ///
    /// # Errors
    /// Shapes that do not belong together.
    pub fn new(
        arg: &'static str,
        packed: Rows<'a, u8>,
        scales: Rows<'a, u8>,
        global_scale: f32,
    ) -> Result<Self> {
        let blocks = packed.cols() / (NVFP4_BLOCK / 2);
        if !packed.cols().is_multiple_of(NVFP4_BLOCK / 2) {
            let got = [packed.rows(), packed.cols()];
            return Err(Error::shape(arg, &got, "packed [rows, cols / 2] with cols a multiple of 16"));
        }
        scales.expect(arg, packed.rows(), blocks, "scales [rows, cols / 16]")?;
        Ok(Nvfp4Ref { packed, scales, global_scale })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.packed.rows()
    }

    /// Elements in a row.
    pub fn cols(&self) -> usize {
        self.packed.cols() * 2
    }

    /// The scale of all elements.
    pub fn global_scale(&self) -> f32 {
        self.global_scale
    }

    /// Packed codes of row `i`; panics if there is none, like indexing.
    #[inline]
    pub fn packed_row(&self, i: usize) -> &'a [u8] {
        self.packed.row(i)
    }

    /// Block scales of row `i`, ue4m3; panics if there is none, like indexing.
    #[inline]
    pub fn scales_row(&self, i: usize) -> &'a [u8] {
        self.scales.row(i)
    }

    /// The rows `range`.
    pub fn slice(&self, arg: &'static str, range: Range<usize>) -> Result<Self> {
        let packed = self.packed.slice(arg, range.clone())?;
        Ok(Nvfp4Ref { packed, scales: self.scales.slice(arg, range)?, ..*self })
    }

    /// Row `i` without the global scale: `e2m1 · scale`, exact in bf16 (at most 2 and 4 significant bits).
    /// Writes the first `cols` elements of `out`; panics if it is shorter, like indexing.
    pub fn unscaled_row(&self, i: usize, out: &mut [bf16]) {
        let tables = &*SCALED_CODES;
        let blocks = self.packed_row(i).chunks_exact(NVFP4_BLOCK / 2).zip(self.scales_row(i));
        for ((codes, scale), out) in blocks.zip(out[..self.cols()].chunks_exact_mut(NVFP4_BLOCK)) {
            let table = &tables[usize::from(*scale)];
            for (byte, pair) in codes.iter().zip(out.chunks_exact_mut(2)) {
                pair[0] = table[usize::from(byte & 15)];
                pair[1] = table[usize::from(byte >> 4)];
            }
        }
    }

    /// Row `i` as f32: `(e2m1 · scale) · global_scale`, the last product rounded to nearest even. Writes the first
    /// `cols` elements of `out`; panics if it is shorter, like indexing.
    pub fn dequantize_row(&self, i: usize, out: &mut [f32]) {
        let blocks = self.packed_row(i).chunks_exact(NVFP4_BLOCK / 2).zip(self.scales_row(i));
        for ((codes, scale), out) in blocks.zip(out[..self.cols()].chunks_exact_mut(NVFP4_BLOCK)) {
            let table = SCALED_CODES[usize::from(*scale)]
                .map(|x| crate::Element::from_f32(x.to_f32() * self.global_scale));
            for (byte, pair) in codes.iter().zip(out.chunks_exact_mut(2)) {
                pair[0] = table[usize::from(byte & 15)];
                pair[1] = table[usize::from(byte >> 4)];
            }
        }
    }
}

/// What each code means under each block scale.
static SCALED_CODES: LazyLock<[[bf16; 16]; 256]> = LazyLock::new(|| {
    std::array::from_fn(|scale| {
        let scale = Ue4m3::from_bits(scale as u8).to_f32();
        std::array::from_fn(|code| crate::Element::from_f32(E2m1::from_bits(code as u8).to_f32() * scale))
    })
});
