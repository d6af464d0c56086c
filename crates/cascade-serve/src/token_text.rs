//! The text of single tokens, as log probabilities show them.

use std::sync::Arc;

use cascade_core::{TextCodec, TokenId};
use cascade_models::Tokenizer;

/// A token's text, and its bytes, which of several tokens may make a character together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenText {
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
}

/// Reads tokens one by one.
pub(crate) struct TokenTexts {
    tokenizer: Arc<Tokenizer>,
    /// A token before every other: the first of a text may lose its blank.
    anchor: Vec<TokenId>,
}

impl TokenTexts {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        Self {
            // Without an anchor, a blank is lost at worst.
            anchor: tokenizer.encode_plain("a").unwrap_or_default(),
            tokenizer: Arc::new(tokenizer.clone()),
        }
    }

    /// The text of a token behind others.
    pub(crate) fn of(&self, token: TokenId) -> TokenText {
        let piece = self.tokenizer.id_to_token(token).unwrap_or_default();
        if let Some(byte) = byte_of(&piece) {
            return TokenText::of_bytes(vec![byte]);
        }
        let text = self.decoded(token);
        if text.contains(char::REPLACEMENT_CHARACTER)
            && let Some(bytes) = byte_level(&piece)
        {
            return TokenText::of_bytes(bytes);
        }
        // Special tokens have no text; they are shown as they are written.
        let text = if text.is_empty() { piece } else { text };
        TokenText {
            bytes: text.clone().into_bytes(),
            text,
        }
    }

    /// Characters of a text before each of its tokens. Special tokens have none.
    pub(crate) fn offsets(&self, tokens: impl Iterator<Item = TokenId>) -> Vec<usize> {
        let mut decoder = Arc::clone(&self.tokenizer).decoder();
        let mut characters = 0;
        let place = |token| {
            let place = characters;
            let text: String = decoder.push(token).unwrap_or_default();
            characters += text.chars().count();
            place
        };
        tokens.map(place).collect()
    }

    fn decoded(&self, token: TokenId) -> String {
        let mut decoder = Arc::clone(&self.tokenizer).decoder();
        for &before in &self.anchor {
            if decoder.push(before).is_err() {
                return String::new();
            }
        }
        let text = decoder.push(token).unwrap_or_default();
        text + &decoder.finish().unwrap_or_default()
    }
}

impl TokenText {
    /// Bytes, written as OpenAI does where they are no text.
    fn of_bytes(bytes: Vec<u8>) -> Self {
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                let escaped = bytes.iter().map(|byte| format!("\\x{byte:02x}"));
                format!("bytes:{}", escaped.collect::<String>())
            }
        };
        Self { text, bytes }
    }
}

/// The byte of a token such as `<0x0A>`.
fn byte_of(piece: &str) -> Option<u8> {
    let hex = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    (hex.len() == 2)
        .then(|| u8::from_str_radix(hex, 16).ok())
        .flatten()
}

/// The bytes of a token of a byte-level BPE, which writes each byte as a printable character: those
/// that are printable themselves as they are, the others from U+0100 on in their order.
fn byte_level(piece: &str) -> Option<Vec<u8>> {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let others: Vec<u8> = (0..=255).filter(|&byte| !printable(byte)).collect();
    let byte = |character: char| match u32::from(character) {
        code @ 0..=255 => Some(code as u8).filter(|&byte| printable(byte)),
        code => others.get(code as usize - 256).copied(),
    };
    piece.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_byte_level_tokens() {
        assert_eq!(byte_level("Ġa"), Some(b" a".to_vec()));
        assert_eq!(byte_level("Ċ"), Some(b"\n".to_vec()));
        assert_eq!(byte_level("æ¼"), Some(vec![0xe6, 0xbc]));
        assert_eq!(byte_level("漢"), None);
        assert_eq!(byte_of("<0x0A>"), Some(10));
        assert_eq!(byte_of("<0xzz>"), None);
        let part = TokenText::of_bytes(vec![0xe6, 0xbc]);
        assert_eq!(part.text, "bytes:\\xe6\\xbc");
    }

    #[test]
    fn tokens_keep_their_blanks() {
        cascade_demo::register();
        let config = cascade_config::Config::open("embedded:demo-llama").unwrap();
        let tokenizer = config.target.load_tokenizer(&Default::default()).unwrap();
        let texts = TokenTexts::new(&tokenizer);
        let tokens = tokenizer.encode_plain("Tom has 12 apples.").unwrap();
        let joined: String = tokens.iter().map(|&token| texts.of(token).text).collect();
        assert_eq!(joined.trim_start(), "Tom has 12 apples.");
        let end = tokenizer.token_to_id("</s>").unwrap();
        assert_eq!(texts.of(end).text, "</s>");
    }
}
