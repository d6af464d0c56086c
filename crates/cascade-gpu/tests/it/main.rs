//! Kernels against formulas, on a GPU or on the PTX interpreter.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod attention;
mod common;
mod counts;
mod encoder;
mod invariance;
mod layers;
mod linear;
mod readout;
mod synchronization;
mod threads;
