//! The `vt` program.

fn main() {}
