//! The files of language models: weights, tokenizers, and GGUF, which holds both.
//!
//! * [`Checkpoint`]: the tensors of one or more files by the names that Hugging Face has for them,
//!   from safetensors, from pickles of PyTorch, or from GGUF. [`read_tensors`]: all tensors of a
//!   small file.
//! * [`Tokenizer`]: tokenizer.json, a model of SentencePiece, or what a GGUF file says, as a
//!   [`TextCodec`](cascade_core::TextCodec).
//! * [`gguf_config`], [`gguf_generation_config`], [`gguf_tokenizer_config`]: what config.json,
//!   generation_config.json and tokenizer_config.json would say of the model in a GGUF file.
//! * [`quantize`]: writing a model as a GGUF file.
//!
//! This crate knows no architecture: settings are JSON on the way in and a
//! [`Description`](quantize::Description) on the way out. Nothing a file says is believed before it
//! is compared with the file. What is damaged, cut off or not understood is refused, and every
//! [`Error`] names the file and the cure.

mod blocks;
mod bytes;
mod checkpoint;
mod dtype;
mod error;
mod finite;
mod gguf;
mod json;
mod pytorch;
pub mod quantize;
mod read_tensors;
mod safetensors;
mod sentencepiece;
mod tensor;
mod tokenizer;

pub use checkpoint::{Checkpoint, HEAD, Leftovers, Rows};
pub use dtype::{DType, FloatType, parse_dtype};
pub use error::{Error, ErrorKind, Result};
pub use finite::{Named, ScaleType, Scales};
pub use gguf::{gguf_config, gguf_generation_config, gguf_tokenizer_config};
pub use json::read_json;
pub use read_tensors::{NamedTensor, read_tensors};
pub use tensor::{Blocks, Stored, TensorInfo, fits};
pub use tokenizer::Tokenizer;
