//! LLaMA and Vicuna (arXiv:2302.13971), with grouped keys and values.

mod config;
mod layers;

pub use config::{LlamaConfig, RopeScaling};
