//! moe kernels.
