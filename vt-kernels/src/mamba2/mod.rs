//! mamba2 kernels.
