//! Weights of `demo-llama-target`, the first part: a part of `cascade-demo`, which has the rest, if
//! there is any.
//!
//! A registry takes packages of up to 10 MB, and the demo is larger. Use `cascade-demo` instead of
//! this crate.

#![forbid(unsafe_code)]
#![no_std]

/// The first bytes of `model.safetensors` of `demo-llama-target`.
pub const HEAD: &[u8] = include_bytes!("../demo-llama-target.head");
