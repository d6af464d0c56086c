//! The text of each token of an answer.

use std::sync::Arc;

use cascade_core::{TextCodec, TokenId};
use cascade_models::Tokenizer;

use crate::Result;

/// The text of each token; joined, they are the answer. A special token has its name (`</s>`), and
/// without a tokenizer every token has its id. Of tokens that are parts of one character, the last
/// has the character and the others are empty.
pub(crate) fn token_texts(
    tokens: &[TokenId],
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<String>> {
    let Some(tokenizer) = tokenizer else {
        return Ok(tokens.iter().map(|token| format!(" {token}")).collect());
    };
    let mut decoder = Arc::new(tokenizer.clone()).decoder();
    let mut streamed = tokens
        .iter()
        .map(|&token| decoder.push(token))
        .collect::<cascade_core::Result<Vec<_>>>()?;
    streamed.push(decoder.finish()?);
    let names = tokens.iter().map(|&token| tokenizer.id_to_token(token));
    let bytes: Vec<Option<u8>> = names.map(|name| byte(&name?)).collect();
    let mut pieces = settled(&streamed, &bytes).unwrap_or(streamed);
    for (piece, &token) in pieces.iter_mut().zip(tokens) {
        let decode = |token| {
            tokenizer
                .decode(&[token])
                .map_err(cascade_models::Error::from)
        };
        if piece.is_empty() && decode(token)?.is_empty() {
            *piece = tokenizer.id_to_token(token).unwrap_or_default();
        }
    }
    let rest = pieces.pop().unwrap_or_default();
    if let Some(last) = pieces.last_mut() {
        last.push_str(&rest);
    }
    Ok(pieces)
}

/// The byte that a token like `<0x0A>` stands for.
fn byte(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok()
}

/// A decoder holds bytes back until no more can follow, so that their text comes with a later
/// token. Here the token that completes a character gets it. `streamed` has one more entry, the
/// text that came at the end. `None` if the bytes and the decoder's text disagree.
fn settled(streamed: &[String], bytes: &[Option<u8>]) -> Option<Vec<String>> {
    let mut character = Vec::new();
    // What tokens have got already, and the decoder has still to give.
    let mut ahead = String::new();
    let mut pieces = Vec::with_capacity(streamed.len());
    for (i, given) in streamed.iter().enumerate() {
        let mut own = String::new();
        match bytes.get(i).copied().flatten() {
            Some(byte) => character.push(byte),
            None => character.clear(),
        }
        if let Ok(text) = std::str::from_utf8(&character) {
            own.push_str(text);
            character.clear();
        }
        ahead += &own;
        if !(given.is_empty()) {
            own += given.strip_prefix(&ahead)?;
            ahead.clear();
        }
        pieces.push(own);
    }
    ahead.is_empty().then_some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(streamed: &[&str], bytes: &[Option<u8>], expected: Option<&[&str]>) {
        let streamed: Vec<String> = streamed.iter().map(ToString::to_string).collect();
        let pieces = settled(&streamed, bytes);
        let pieces: Option<Vec<&str>> = pieces
            .as_ref()
            .map(|pieces| pieces.iter().map(String::as_str).collect());
        assert_eq!(pieces.as_deref(), expected);
    }

    #[test]
    fn bytes_have_their_characters() {
        let line = byte("<0x0A>");
        assert_eq!((line, byte("<s>"), byte("<0xZZ>")), (Some(10), None, None));
        check(
            &[".", "", "", "\n\nDay", ""],
            &[None, line, line, None],
            Some(&[".", "\n", "\n", "Day", ""]),
        );
        let e = [Some(0xC3), Some(0xA9)];
        check(
            &["", "", "ét", ""],
            &[e[0], e[1], None],
            Some(&["", "é", "t", ""]),
        );
        check(&["", "", "é"], &e, Some(&["", "é", ""]));
        check(
            &["", "\u{fffd}t", ""],
            &[e[0], None],
            Some(&["", "\u{fffd}t", ""]),
        );
        // Half a character at the end.
        check(
            &["a", "", "\u{fffd}"],
            &[None, e[0]],
            Some(&["a", "", "\u{fffd}"]),
        );
        check(&["", "x", ""], &[line, None], None);
    }
}
