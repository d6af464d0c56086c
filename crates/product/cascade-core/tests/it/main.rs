//! Distributions and sampling.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod distributions;
mod sampling_goldens;
