//! conv1d kernels.
