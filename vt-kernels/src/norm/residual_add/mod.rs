//! Sum of two rows: `out = round(a + b)`, in f32, rounded once to nearest even.
//!
//! # Shapes and layouts
//! `a`, `b`, `out`: `[rows, cols]`, strided, each f32, bf16 or f16.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! ```
//! use half::bf16;
//! use vt_kernels::{Arch, Rows, RowsMut, norm::residual_add};
//! let plan = residual_add::Plan::new(Arch::Sm90a, residual_add::Shape { cols: 1 })?;
//! let (a, b, mut out) = ([bf16::from_f32(256.0)], [1.5f32], [bf16::ZERO]);
//! let view = &mut RowsMut::new("out", &mut out, 1, 1)?;
//! plan.reference(Rows::new("a", &a, 1, 1)?, Rows::new("b", &b, 1, 1)?, view)?;
//! assert_eq!(out[0].to_f32(), 258.0); // 257.5 on a grid of 2
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
    arch::simt("norm/residual_add", arch)
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

    /// Adds on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn reference<A: Element, B: Element, O: Element>(
        &self,
        a: Rows<'_, A>,
        b: Rows<'_, B>,
        out: &mut RowsMut<'_, O>,
    ) -> Result<()> {
        a.expect("a", a.rows(), self.shape.cols, "[rows, cols]")?;
        b.expect("b", a.rows(), self.shape.cols, "[rows, cols]")?;
        out.expect("out", a.rows(), self.shape.cols, "[rows, cols]")?;
        reference::run(a, b, out);
        Ok(())
    }
}
