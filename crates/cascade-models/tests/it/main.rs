//! Models: files, and forwards against references.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod batcher;
mod candle_transformers;
mod common;
mod gathering;
mod gguf;
mod golden_logits;
mod heads;
#[cfg(feature = "hub")]
mod hub;
mod loading;
mod lookalikes;
mod prefixes;
mod purity;
mod random;
#[cfg(feature = "hub")]
#[path = "../../../testing/test_server.rs"]
mod test_server;
mod tree_logits;
