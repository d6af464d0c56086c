//! Acceptance rules: their results, their exactness, and their errors.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod conformance;
mod exact;
mod greedy;
mod hostile;
