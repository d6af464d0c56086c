//! Weights of `demo-t5-target`, the first part: a part of `cascade-demo`, which has the rest.
//!
//! A registry takes packages of up to 10 MB, and the file is larger. Use `cascade-demo` instead of
//! this crate.

#![forbid(unsafe_code)]
#![no_std]

/// The first bytes of `model.safetensors` of `demo-t5-target`.
pub const HEAD: &[u8] = include_bytes!("../demo-t5-target.head");
