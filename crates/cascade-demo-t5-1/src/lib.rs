//! Weights of `demo-t5-target`, the first of two shards: a part of `cascade-demo`.
//!
//! A registry takes packages of up to 10 MB, and the weights are larger. Use `cascade-demo` instead
//! of this crate.

#![forbid(unsafe_code)]
#![no_std]

/// `include_bytes!` does not align, and readers of tensors need alignment.
#[repr(C, align(64))]
struct Aligned<B: ?Sized>(B);

const ALIGNED: &Aligned<[u8]> = &Aligned(*include_bytes!("../model-00001-of-00002.safetensors"));

/// `model-00001-of-00002.safetensors` of `demo-t5-target`, aligned to 64 bytes.
pub const SHARD: &[u8] = &ALIGNED.0;
