//! Norms and the residual stream.

pub mod gated_group;
pub mod residual_add;
pub mod rms;
