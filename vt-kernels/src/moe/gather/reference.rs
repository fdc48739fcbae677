//! The definition.

use crate::{Rows, RowsMut};

pub(super) fn run<T: Copy>(top_k: usize, x: Rows<'_, T>, source: &[u32], out: &mut RowsMut<'_, T>) {
    for (row, &slot) in source.iter().enumerate() {
        out.row_mut(row).copy_from_slice(x.row(slot as usize / top_k));
    }
}
