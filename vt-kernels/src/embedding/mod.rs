//! From token ids to rows.

pub mod gather;
