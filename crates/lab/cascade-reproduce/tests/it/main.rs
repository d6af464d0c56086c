//! Experiments, and the sums behind their tables.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod experiments;
mod ledger;
mod lengths;
