//! What goes to the terminal, and errors.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Why a command ends early.
pub(crate) enum Failure {
    /// Wrong usage or input, in one line.
    Message(String),
    /// Standard output was closed.
    BrokenPipe,
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Message(error.to_string())
    }
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A [`Failure::Message`].
pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Failure::Message(message.into()))
}

/// Writes to standard output at once.
pub(crate) fn print(text: Arguments<'_>) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_fmt(text).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::Message(format!("standard output: {error}")),
    })
}

/// [`print()`] with `format!`'s arguments and a line end.
macro_rules! line {
    ($($arg:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($arg)*))) };
}
pub(crate) use line;

/// Writes a line to standard error, if there is one.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A bar on standard error: for terminals only, and not if `quiet`.
pub(crate) fn bar(quiet: bool, total: u64, template: &str) -> ProgressBar {
    let shown = !quiet && io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(total), target).with_style(style)
}

/// `n` per second; nothing took no time.
pub(crate) fn rate(n: usize, time: Duration) -> f64 {
    if n == 0 { 0.0 } else { n as f64 / time.as_secs_f64().max(1e-9) }
}

/// Bytes with a unit.
pub(crate) fn bytes(n: u64) -> String {
    indicatif::BinaryBytes(n).to_string()
}
