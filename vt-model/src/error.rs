//! Errors: each names the file, field, tensor or argument, what it was and what was expected.

use std::path::{Path, PathBuf};

/// Result of a fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{}: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// A field of a file has a value that is not allowed.
    #[error("{}: {field}: {got}, expected {expected}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Name of the field.
        field: String,
        /// Its value.
        got: String,
        /// What was expected.
        expected: String,
    },
    /// A tensor of a checkpoint is not as it should be.
    #[error("{}: tensor {tensor}: {got}, expected {expected}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// What it is.
        got: String,
        /// What was expected.
        expected: String,
    },
    /// Something known that is not supported.
    #[error("{what} is unsupported: {reason}")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// Why it cannot be given.
        reason: String,
    },
    /// A request, a size or an option that is not allowed.
    #[error("{0}")]
    Request(String),
    /// A kernel refused its arguments.
    #[error(transparent)]
    Kernel(#[from] vt_kernels::Error),
}

impl Error {
    /// An [`Error::Io`].
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Error::Io { path: path.into(), source }
    }

    /// An [`Error::Format`].
    pub fn format(path: &Path, what: impl ToString) -> Self {
        Error::Format { path: path.into(), what: what.to_string() }
    }

    /// An [`Error::Field`].
    pub fn field(path: &Path, field: &str, got: impl ToString, expected: impl ToString) -> Self {
        Error::Field {
            path: path.into(),
            field: field.into(),
            got: got.to_string(),
            expected: expected.to_string(),
        }
    }

    /// An [`Error::Tensor`].
    pub fn tensor(path: &Path, tensor: &str, got: impl ToString, expected: impl ToString) -> Self {
        Error::Tensor {
            path: path.into(),
            tensor: tensor.into(),
            got: got.to_string(),
            expected: expected.to_string(),
        }
    }
}
