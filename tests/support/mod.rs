//! What tests share: equality of bits, random values of every kind, oracle files, models.

#[allow(dead_code)] // Each test module uses its own part.
pub mod biteq;
#[allow(dead_code)]
pub mod faulty;
#[allow(dead_code)]
pub mod models;
#[allow(dead_code)]
pub mod oracle;
#[allow(dead_code)]
pub mod strategies;
