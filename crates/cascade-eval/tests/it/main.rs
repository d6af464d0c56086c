//! Datasets and losslessness.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod formats;
mod goldens;
mod hub_datasets;
mod hub_server;
mod lossless;
