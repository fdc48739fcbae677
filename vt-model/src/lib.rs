//! NVIDIA's Nemotron-H, assembled from `vt-kernels`.
