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
    for (i, &slot) in inputs.slots.iter().enumerate() {
        match usize::try_from(slot) {
            Ok(slot) => {
                window.begin(Some(state.row(slot)));
                window.push(inputs.x.row(i), out.row_mut(i));
                window.end(state.row_mut(slot));
            }
            Err(_) => out.row_mut(i).fill(T::from_f32(0.0)),
        }
    }
}
