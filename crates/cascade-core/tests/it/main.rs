//! Distributions, sampling, and the words that all crates share.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod distributions;
mod noise;
mod sampling_goldens;
mod words;
