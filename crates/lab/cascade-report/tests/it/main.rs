//! Reports and folders of results.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod documents;
mod results;
