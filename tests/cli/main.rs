//! The `cascade` command as people use it.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod arguments;
mod asking;
mod batch;
mod bench;
mod bigram;
mod chat;
mod check_lossless;
mod commands;
mod common;
mod coupled;
mod gguf;
mod interrupts;
mod lookalikes;
mod memory;
mod ngram;
mod outputs;
mod pairs;
mod serve;
mod terminal;
mod theory_ewif;
mod theory_simulate;
mod together;
mod trace;
mod train;
mod tune;
