//! Decoders of the LLaMA family, whose kinds of config.json are one table: LLaMA 1 to 3.2
//! (arXiv:2302.13971, arXiv:2407.21783) and what is built like it (Vicuna, TinyLlama, SmolLM 1 and
//! 2), Mistral, Qwen 2 and 3, SmolLM3, Phi-3, MiMo.
//!
//! They are the same but for a few things, which [`DecoderConfig`] has one field each for.

mod config;
mod family;
mod layers;
mod rope;

pub(crate) use config::{DecoderConfig, LayerKind, ProjectionLayout};
pub(crate) use family::of as family;
pub(crate) use layers::Layer;
pub(crate) use rope::{Rope, Stretch};
