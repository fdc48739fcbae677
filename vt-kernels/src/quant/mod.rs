//! quant kernels.
