//! marlin kernels.
