//! Demo checkpoints, configurations and bigram tables, embedded in the program, and word problems.
//!
//! Two families of three models each, T5 and LLaMA, small enough that a demo, a test or a first
//! look needs no download. `models/README.md` describes the models and their limits.

#![forbid(unsafe_code)]

#[cfg(feature = "models")]
mod models;
pub mod problems;

#[cfg(feature = "models")]
pub use models::{BIGRAM_TABLES, CHECKPOINTS, bigram_table, checkpoint, register};
