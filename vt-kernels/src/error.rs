//! Errors: each names the argument, what it was and what was expected.

use crate::Arch;

/// Result of a checked call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call was refused. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An argument has the wrong shape.
    #[error("{arg}: shape {got:?}, expected {expected}")]
    Shape {
        /// Name of the argument.
        arg: &'static str,
        /// Its shape.
        got: Vec<usize>,
        /// The shape that was expected, with the names of its dimensions.
        expected: String,
    },
    /// An argument has a value that is not allowed.
    #[error("{arg}: {got}, expected {expected}")]
    Value {
        /// Name of the argument.
        arg: &'static str,
        /// Its value.
        got: String,
        /// What was expected.
        expected: String,
    },
    /// The kernel has no arm for this architecture and shape.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

impl Error {
    /// An [`Error::Shape`].
    pub fn shape(arg: &'static str, got: &[usize], expected: impl Into<String>) -> Self {
        Error::Shape { arg, got: got.to_vec(), expected: expected.into() }
    }

    /// An [`Error::Value`].
    pub fn value(arg: &'static str, got: impl ToString, expected: impl Into<String>) -> Self {
        Error::Value { arg, got: got.to_string(), expected: expected.into() }
    }
}

/// A kernel that cannot run on an architecture or shape, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kernel} is unsupported on {arch}: {reason}")]
pub struct Unsupported {
    /// Path of the kernel, `family/kernel`.
    pub kernel: &'static str,
    /// The architecture asked for.
    pub arch: Arch,
    /// Why, in one sentence.
    pub reason: String,
}
