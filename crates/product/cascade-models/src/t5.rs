//! T5 v1.0, T5 v1.1 and FLAN-T5 (arXiv:1910.10683), encoder and decoder.

mod config;
mod layers;

pub use config::{relative_position_bucket, FeedForwardProj, T5Config};
