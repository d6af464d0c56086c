//! Text to tokens and back.

use std::sync::Arc;

use crate::{Result, TokenId};

/// A tokenizer, as far as generation needs one.
pub trait TextCodec: Send + Sync {
    /// The tokens of a prompt, with the special tokens that the model expects around it (`<s>`,
    /// `</s>`).
    fn encode(&self, text: &str) -> Result<Vec<TokenId>>;

    /// A decoder for one stream of generated tokens. Special tokens give no text.
    fn decoder(self: Arc<Self>) -> Box<dyn TextDecoder + Send>;
}

/// Turns generated tokens into text as they come.
///
/// The pieces that `push` and `finish` return, joined, are the text of all tokens decoded at once:
/// a piece may be empty while a character is still incomplete (byte fallback), and is never taken
/// back.
pub trait TextDecoder {
    /// Text that `token` completes; may be empty.
    fn push(&mut self, token: TokenId) -> Result<String>;

    /// Text still held back when no more tokens come.
    fn finish(&mut self) -> Result<String>;
}
