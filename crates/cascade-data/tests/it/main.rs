//! Datasets, from files and from the hub.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod formats;
mod goldens;
mod hub_datasets;
mod hub_server;
#[path = "../../../testing/test_server.rs"]
mod test_server;
