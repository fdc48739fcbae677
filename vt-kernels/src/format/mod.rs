//! Number formats: bf16, f16, e4m3, e5m2, ue4m3, ue8m0, e2m1, e2m3, e3m2.
