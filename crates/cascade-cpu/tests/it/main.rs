//! Products against those of others.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod ggml;
