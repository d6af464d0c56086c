//! Datasets and losslessness.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod formats;
mod goldens;
mod hub_datasets;
mod hub_server;
mod lossless;
#[path = "../../../testing/test_server.rs"]
mod test_server;
