//! What tests share: equality of bits, random values of every kind, poison, oracle files, synthetic checkpoints.

#[allow(dead_code)] // Each test module uses its own part.
pub mod biteq;
#[allow(dead_code)]
pub mod checkpoint;
#[allow(dead_code)]
pub mod oracle;
#[allow(dead_code)]
pub mod strategies;
