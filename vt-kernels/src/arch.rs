//! The chips that the references model.

use std::fmt;

use crate::Unsupported;

/// A GPU architecture whose arithmetic a reference can be asked to model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// Ampere (A100); rows of the MMA model only.
    Sm80,
    /// Ada (L40S, RTX 4090); rows of the MMA model only.
    Sm89,
    /// Hopper (H100, H200).
    Sm90a,
    /// Blackwell, GB10 (DGX Spark).
    Sm121a,
}

/// Kernels without tensor cores have an arm on each chip that device code is built for.
pub(crate) fn simt(kernel: &'static str, arch: Arch) -> Result<(), Unsupported> {
    match arch {
        Arch::Sm90a | Arch::Sm121a => Ok(()),
        Arch::Sm80 | Arch::Sm89 => {
            Err(Unsupported { kernel, arch, reason: "no device arm is planned".into() })
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arch::Sm80 => "sm_80",
            Arch::Sm89 => "sm_89",
            Arch::Sm90a => "sm_90a",
            Arch::Sm121a => "sm_121a",
        })
    }
}

impl std::str::FromStr for Arch {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s.strip_prefix("sm_").or_else(|| s.strip_prefix("sm")).unwrap_or(s) {
            "80" => Ok(Arch::Sm80),
            "89" => Ok(Arch::Sm89),
            "90a" => Ok(Arch::Sm90a),
            "121a" => Ok(Arch::Sm121a),
            _ => Err(format!("arch: `{s}`, expected sm_80, sm_89, sm_90a or sm_121a")),
        }
    }
}
