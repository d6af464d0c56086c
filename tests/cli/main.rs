//! The `cascade` command as people use it.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod arguments;
mod bench;
mod bigram;
mod check_lossless;
mod commands;
mod common;
mod ewif;
mod gguf;
mod gpu_driver;
mod lookalikes;
mod interrupts;
mod outputs;
mod terminal;
mod trace;
mod tune;
