//! Inference kernels, each defined by its CPU reference: the device result equals it bit for bit.
//!
//! A kernel lives in `<family>/<kernel>`: `mod.rs` holds its documentation, `Shape`, [`Plan`](gemm) and
//! checks; `reference.rs` is its definition. A result depends on the kernel, the shape of one row's
//! problem and the modelled [`Arch`], never on the batch, the number of threads or timing.

pub mod arch;
pub mod attention;
mod checks;
pub mod conv1d;
pub mod element;
pub mod embedding;
pub mod error;
pub mod format;
pub mod gemm;
mod host;
pub mod layout;
pub mod mamba2;
pub mod marlin;
pub mod math;
pub mod mma;
pub mod moe;
pub mod norm;
pub mod quant;
pub mod reduce;
pub mod sampling;
pub mod view;

pub use arch::Arch;
pub use element::{DType, Element};
pub use error::{Error, Result, Unsupported};
pub use view::{Rows, RowsMut};
