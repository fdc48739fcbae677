//! The definition.

use super::{Inputs, Shape};
use crate::conv1d::window::Window;
use crate::{Element, RowsMut};

pub(super) fn run<T: Element, W: Element, S: Element>(
    shape: &Shape,
    inputs: &Inputs<'_, T, W>,
    state: &mut RowsMut<'_, S>,
    out: &mut RowsMut<'_, T>,
) {
    let mut window = Window::new(&inputs.weight, inputs.bias, shape.silu);
    for (s, ends) in inputs.cu_seqlens.windows(2).enumerate() {
        let slot = usize::try_from(inputs.slots[s]).ok();
        window.begin(slot.filter(|_| inputs.has_initial[s]).map(|slot| state.row(slot)));
        for t in ends[0] as usize..ends[1] as usize {
            window.push(inputs.x.row(t), out.row_mut(t));
        }
        if let Some(slot) = slot {
            window.end(state.row_mut(slot));
        }
    }
}
