//! Rows of a table: `out[i] = table[ids[i]]`, bits unchanged.
//!
//! # Shapes and layouts
//! `table`: `[vocab, cols]`, strided; `ids`: `[rows]`; `out`: `[rows, cols]`, strided, of the table's type.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! ```
//! use vt_kernels::{Arch, Rows, RowsMut, embedding::gather};
//! let plan = gather::Plan::new(Arch::Sm90a, gather::Shape { vocab: 2, cols: 2 })?;
//! let (table, mut out) = ([1.0f32, 2.0, 3.0, 4.0], [0.0f32; 2]);
//! plan.reference(Rows::new("table", &table, 2, 2)?, &[1], &mut RowsMut::new("out", &mut out, 1, 2)?)?;
//! assert_eq!(out, [3.0, 4.0]);
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod reference;

use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported, arch};

/// Sizes of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of the table.
    pub vocab: usize,
    /// Elements in a row.
    pub cols: usize,
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("embedding/gather", arch)
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

    /// Gathers on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; an id that is not below `vocab`.
    pub fn reference<T: Element>(
        &self,
        table: Rows<'_, T>,
        ids: &[u32],
        out: &mut RowsMut<'_, T>,
    ) -> Result<()> {
        let Shape { vocab, cols } = self.shape;
        table.expect("table", vocab, cols, "[vocab, cols]")?;
        out.expect("out", ids.len(), cols, "[rows, cols]")?;
        if let Some(at) = ids.iter().position(|&id| id as usize >= vocab) {
            return Err(Error::value(
                "ids",
                format!("{} at {at}", ids[at]),
                format!("below vocab = {vocab}"),
            ));
        }
        reference::run(table, ids, out);
        Ok(())
    }
}
