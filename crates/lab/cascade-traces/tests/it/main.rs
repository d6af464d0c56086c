//! Recordings and their replays.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod ngram;
mod online;
mod timed_replay;
mod together;
mod trace;
mod train;
mod with_states;
