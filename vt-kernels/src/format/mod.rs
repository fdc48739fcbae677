//! Number formats below 16 bits: what each code means, and how an f32 is rounded to one.
//!
//! Encoding rounds to nearest even and saturates at the largest finite value; decoding is exact. Sources: OCP
//! 8-bit Floating Point (e4m3, e5m2), OCP Microscaling Formats (ue8m0, e2m3, e3m2, e2m1), PTX ISA §5.2.3 (ue4m3).

mod minifloat;
mod nvfp4;

pub mod e2m1x2;

pub use minifloat::{E2m1, E2m3, E3m2, E4m3, E5m2, Ue4m3, Ue8m0};
pub use nvfp4::{Nvfp4, Nvfp4Ref};

/// Elements of an NVFP4 row that share one block scale.
pub const NVFP4_BLOCK: usize = 16;
