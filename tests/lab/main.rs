//! The `cascade-lab` command as people use it.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod bigram;
mod command;
#[path = "../cli/common.rs"]
mod common;
mod ngram;
mod reproduce;
mod step;
mod theory;
mod trace;
mod train;
mod tune;
