//! Rows to FP8 e4m3, by a static scale or one scale a row.
//!
//! `code = e4m3(x / scale)`: a quotient in f32, rounded to nearest even, saturated at ±448.
//!
//! # Scales
//! [`Scale::PerTensor`]: given, `amax / 448` of a calibration (`input_scale` of a checkpoint).
//! [`Scale::PerRow`]: computed, `max(amax(row) / 448, 1 / (448 · 512))`, and written; the floor keeps a row
//! of zeros finite (vLLM's dynamic per-token FP8).
//!
//! # Order of reduction
//! `amax` is a maximum of magnitudes: exact in any order.
//!
//! # Shapes and layouts
//! | argument | shape | type |
//! |---|---|---|
//! | `x` | `[rows, cols]`, strided | f32, bf16 or f16 |
//! | `scale` | one f32, or `[rows]` | f32 |
//! | `out` | `[rows, cols]`, strided | e4m3 |
//!
//! # Special values
//! NaN gives 0x7f; ±∞ gives ±448 under a static scale. A row whose amax is NaN has the scale 0x7fffffff and
//! codes 0x7f; one whose amax is ∞ has the scale ∞, so its finite elements give ±0 and the infinite ones NaN.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! ModelOpt 0.47 `FP8_DEFAULT_CFG`.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, format::E4m3, quant::fp8};
//! let plan = fp8::Plan::new(Arch::Sm90a, fp8::Shape { cols: 3 })?;
//! let (x, mut out) = ([1.0f32, -0.3, 1000.0], [E4m3::default(); 3]);
//! let mut view = RowsMut::new("out", &mut out, 1, 3)?;
//! plan.reference(Rows::new("x", &x, 1, 3)?, fp8::Scale::PerTensor(0.5), &mut view)?;
//! assert_eq!(out.map(E4m3::to_f32), [2.0, -0.625, 448.0]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::format::E4m3;
use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported, arch};

/// Least scale of a row.
pub const MIN_SCALE: f32 = 1.0 / (448.0 * 512.0);

/// Size of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements in a row.
    pub cols: usize,
}

/// Where scales come from.
#[derive(Debug)]
pub enum Scale<'a> {
    /// One scale, given: positive and finite.
    PerTensor(f32),
    /// One scale a row, computed and written here.
    PerRow(&'a mut [f32]),
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("quant/fp8", arch)
}

/// A checked shape.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Shape,
}

impl Plan {
    /// Checks that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        supported(arch, &shape)?;
        Ok(Plan { shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Quantises on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; a static scale that is not positive and finite.
    pub fn reference<T: Element>(
        &self,
        x: Rows<'_, T>,
        scale: Scale<'_>,
        out: &mut RowsMut<'_, E4m3>,
    ) -> Result<()> {
        x.expect("x", x.rows(), self.shape.cols, "[rows, cols]")?;
        out.expect("out", x.rows(), self.shape.cols, "[rows, cols]")?;
        match &scale {
            Scale::PerTensor(scale) if !(scale.is_finite() && *scale > 0.0) => {
                return Err(Error::value("scale", scale, "a finite number above 0"));
            }
            Scale::PerRow(scales) if scales.len() != x.rows() => {
                return Err(Error::shape("scale", &[scales.len()], format!("[rows] = [{}]", x.rows())));
            }
            _ => {}
        }
        reference::run(x, scale, out);
        Ok(())
    }
}
