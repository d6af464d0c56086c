//! The `cascade` command as people use it. What is the same in both programs (interrupts, outputs,
//! terminals, memory) is tested here for both.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod arguments;
mod asking;
mod batch;
mod bench;
mod chat;
mod check_lossless;
mod commands;
mod common;
mod gguf;
mod interrupts;
mod line;
mod lookalikes;
mod memory;
mod outputs;
mod pairs;
mod printing;
mod real_model;
mod rounds;
mod serve;
mod terminal;
