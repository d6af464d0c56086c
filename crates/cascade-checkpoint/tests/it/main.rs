//! Tokenizers against references.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod added_tokens;
mod sentencepiece;
mod tokenizer;
