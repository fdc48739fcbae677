//! sampling kernels.
