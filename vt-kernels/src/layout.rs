//! Layouts of scale factors as types.
