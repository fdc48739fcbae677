//! Rows to NVFP4: e2m1 codes, one ue4m3 scale for 16 elements, under a given global scale.
//!
//! For each block of 16: `scale = ue4m3(max(amax / (6 · global_scale), 2^−9))`,
//! `code = e2m1(x / (scale · global_scale))`. All in f32: the products and quotients are rounded to nearest even
//! in the order written, then to the format, to nearest even and saturated (scale at 448, codes at ±6).
//!
//! The global scale is `amax / (6 · 448)` of a calibration (`input_scale` of a checkpoint): a block at the
//! calibrated maximum gets the scale 448. 2^−9 is the least ue4m3 above zero, so a block of zeros has the
//! scale code 1 and codes 0.
//!
//! # Order of reduction
//! `amax` is a maximum of magnitudes: exact in any order.
//!
//! # Shapes and layouts
//! | argument | shape | type |
//! |---|---|---|
//! | `x` | `[rows, cols]`, strided, `cols` a multiple of 16 | f32, bf16 or f16 |
//! | `packed` | `[rows, cols / 2]`, strided, lower index in the low nibble | two e2m1 a byte |
//! | `scales` | `[rows, cols / 16]`, strided, or [`SwizzledScales128x4`] | ue4m3 |
//!
//! # Special values
//! A block with a NaN has the scale 0x7f and codes 7 (e2m1 has no NaN: the scale carries it). An infinity
//! saturates its block's scale and its own code.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! ModelOpt 0.47 `NVFP4_DEFAULT_CFG`; codes and scales equal its own byte for byte.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, quant::nvfp4};
//! let plan = nvfp4::Plan::new(Arch::Sm121a, nvfp4::Shape { cols: 16 })?;
//! let mut x = [0.0f32; 16];
//! (x[0], x[1], x[2]) = (6.0, -0.5, 2.5);
//! let (mut packed, mut scales) = ([0; 8], [0; 1]);
//! plan.reference(
//!     Rows::new("x", &x, 1, 16)?,
//!     1.0,
//!     &mut RowsMut::new("packed", &mut packed, 1, 8)?,
//!     &mut RowsMut::new("scales", &mut scales, 1, 1)?,
//! )?;
//! assert_eq!(scales, [0x38]); // amax / 6 = 1
//! assert_eq!(packed[..2], [0x97, 0x04]); // 6, -0.5; 2.5 is a tie and goes to the even code of 2
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::format::NVFP4_BLOCK;
use crate::layout::SwizzledScales128x4;
use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported, arch};

/// Least global scale: its product with the least block scale is still a normal number.
pub const MIN_GLOBAL_SCALE: f32 = f32::from_bits(10 << 23);

/// Size of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements in a row, a multiple of 16.
    pub cols: usize,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("quant/nvfp4", arch)
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    ///
    /// # Errors
    /// `cols` no multiple of 16; no arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        if !shape.cols.is_multiple_of(NVFP4_BLOCK) {
            return Err(Error::value("cols", shape.cols, "a multiple of 16"));
        }
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Quantises on the CPU, scales row-major.
    ///
    /// # Errors
    /// Shapes that do not fit; a global scale below 2^-117 or not finite.
    pub fn reference<T: Element>(
        &self,
        x: Rows<'_, T>,
        global_scale: f32,
        packed: &mut RowsMut<'_, u8>,
        scales: &mut RowsMut<'_, u8>,
    ) -> Result<()> {
        self.check(&x, global_scale, packed)?;
        scales.expect("scales", x.rows(), self.shape.cols / NVFP4_BLOCK, "[rows, cols / 16]")?;
        for i in 0..x.rows() {
            reference::row(x.row(i), global_scale, packed.row_mut(i), scales.row_mut(i));
        }
        Ok(())
    }

    /// Quantises on the CPU, scales in tiles of 128 × 4, padding zeroed.
    ///
    /// # Errors
    /// As [`Plan::reference`]; `scales` must have the length of the layout, padding included.
    pub fn reference_swizzled<T: Element>(
        &self,
        x: Rows<'_, T>,
        global_scale: f32,
        packed: &mut RowsMut<'_, u8>,
        scales: &mut [u8],
    ) -> Result<()> {
        self.check(&x, global_scale, packed)?;
        let blocks = self.shape.cols / NVFP4_BLOCK;
        let layout = SwizzledScales128x4::new(x.rows(), blocks)?;
        if scales.len() != layout.len() {
            return Err(Error::shape("scales", &[scales.len()], format!("[{}] with padding", layout.len())));
        }
        let mut row_major = vec![0; x.rows() * blocks];
        for i in 0..x.rows() {
            let row = &mut row_major[i * blocks..][..blocks];
            reference::row(x.row(i), global_scale, packed.row_mut(i), row);
        }
        layout.swizzle(&row_major, scales)
    }

    fn check<T: Element>(&self, x: &Rows<'_, T>, global_scale: f32, packed: &RowsMut<'_, u8>) -> Result<()> {
        x.expect("x", x.rows(), self.shape.cols, "[rows, cols]")?;
        packed.expect("packed", x.rows(), self.shape.cols / 2, "[rows, cols / 2]")?;
        if !(global_scale.is_finite() && global_scale >= MIN_GLOBAL_SCALE) {
            return Err(Error::value("global_scale", global_scale, "a finite number, at least 2^-117"));
        }
        Ok(())
    }
}
