//! The definition.

use crate::Rows;

pub(super) fn run(ids: Rows<'_, u32>, offsets: &mut [u32], source: &mut [u32], position: &mut [u32]) {
    offsets.fill(0);
    let slots = || (0..ids.rows()).flat_map(|t| ids.row(t)).map(|&id| id as usize);
    slots().for_each(|id| offsets[id + 1] += 1);
    for e in 1..offsets.len() {
        offsets[e] += offsets[e - 1];
    }
    let mut next = offsets.to_vec();
    for (slot, id) in slots().enumerate() {
        let row = next[id];
        next[id] += 1;
        source[row as usize] = slot as u32;
        position[slot] = row;
    }
}
