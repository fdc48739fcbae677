//! Squared ReLU: `out = max(x, 0)²` in f32, rounded once to nearest even.
//!
//! −0 and negative values give +0, NaN gives NaN ([`math::relu2`](crate::math::relu2)).
//!
//! # Shapes and layouts
//! `x`, `out`: `[rows, cols]`, strided, each f32, bf16 or f16.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! So et al., Primer (2021), §4.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, moe::relu2};
//! let plan = relu2::Plan::new(Arch::Sm90a, relu2::Shape { cols: 2 })?;
//! let (x, mut out) = ([-3.0f32, 3.0], [1.0f32; 2]);
//! plan.reference(Rows::new("x", &x, 1, 2)?, &mut RowsMut::new("out", &mut out, 1, 2)?)?;
//! assert_eq!(out, [0.0, 9.0]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Element, Result, Rows, RowsMut, Unsupported, arch};

/// Size of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements in a row.
    pub cols: usize,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("moe/relu2", arch)
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

    /// Activates on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn reference<T: Element, O: Element>(&self, x: Rows<'_, T>, out: &mut RowsMut<'_, O>) -> Result<()> {
        x.expect("x", x.rows(), self.shape.cols, "[rows, cols]")?;
        out.expect("out", x.rows(), self.shape.cols, "[rows, cols]")?;
        reference::run(x, out);
        Ok(())
    }
}
