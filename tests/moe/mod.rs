//! Tests of `vt_kernels::moe`.

mod combine;
mod gather;
mod permute;
mod relu2;
mod router;
