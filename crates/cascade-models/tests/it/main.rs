//! Models: files, and forwards against references.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

#[cfg(feature = "gpu")]
mod batcher;
mod candle_transformers;
mod common;
#[cfg(feature = "gpu")]
mod gathering;
mod gguf;
mod golden_logits;
mod heads;
#[cfg(feature = "hub")]
mod hub;
mod loading;
mod lookalikes;
#[cfg(feature = "gpu")]
mod prefixes;
#[cfg(feature = "gpu")]
mod purity;
#[cfg(feature = "gpu")]
mod random;
#[cfg(feature = "hub")]
#[path = "../../../testing/test_server.rs"]
mod test_server;
#[cfg(feature = "gpu")]
mod tree_logits;
