//! embedding kernels.
