//! Text to tokens and back.

use std::sync::Arc;

use crate::{Result, TokenId};

/// The part of a tokenizer that generation needs.
pub trait TextCodec: Send + Sync {
    /// The tokens of a prompt, with the special tokens that the model expects around it (`<s>`,
    /// `</s>`).
    fn encode(&self, text: &str) -> Result<Vec<TokenId>>;

    /// The tokens of a text that holds all special tokens itself, as chat templates write it: none
    /// are put around it. By default as [`encode`](Self::encode), for codecs that put none.
    fn encode_verbatim(&self, text: &str) -> Result<Vec<TokenId>> {
        self.encode(text)
    }

    /// The special token that a text names, if it is exactly one: what is decoded never has its
    /// text. By default none, for codecs without such tokens.
    fn special_token(&self, _text: &str) -> Option<TokenId> {
        None
    }

    /// Creates a decoder for one stream of generated tokens. Special tokens decode to no text.
    fn decoder(self: Arc<Self>) -> Box<dyn TextDecoder + Send>;

    /// Creates a decoder for tokens that continue others: their text is that of all tokens without
    /// that of `context`, so that a blank between the two is kept. By default as
    /// [`decoder`](Self::decoder), for codecs whose texts do not depend on what precedes them.
    fn decoder_after(self: Arc<Self>, _context: &[TokenId]) -> Box<dyn TextDecoder + Send> {
        self.decoder()
    }
}

/// Decodes generated tokens to text incrementally.
///
/// The concatenation of all pieces that `push` and `finish` return equals the text of all tokens
/// decoded at once. A piece may be empty while a character is still incomplete (byte fallback), and
/// is never revised later.
pub trait TextDecoder {
    /// Text that `token` completes; may be empty.
    fn push(&mut self, token: TokenId) -> Result<String>;

    /// Returns the text still held back once there are no more tokens.
    fn finish(&mut self) -> Result<String>;
}
