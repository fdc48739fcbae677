//! The definition.

use crate::{Rows, RowsMut};

pub(super) fn run<T: Copy>(table: Rows<'_, T>, ids: &[u32], out: &mut RowsMut<'_, T>) {
    for (i, &id) in ids.iter().enumerate() {
        out.row_mut(i).copy_from_slice(table.row(id as usize));
    }
}
