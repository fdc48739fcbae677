//! The tree is complete and parallel; files stay small; `unsafe` stays where it belongs.
