//! Weights of `demo-llama-target`: a part of `cascade-demo`.
//!
//! A registry takes packages of up to 10 MB, and the demo is larger. Use `cascade-demo` instead of
//! this crate.

#![forbid(unsafe_code)]
#![no_std]

/// `model.safetensors` of `demo-llama-target`.
pub const WEIGHTS: &[u8; 10_438_200] = include_bytes!("../demo-llama-target.safetensors");
