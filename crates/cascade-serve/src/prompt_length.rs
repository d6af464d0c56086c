//! Prompts that are too long, found before they are encoded as a whole.
//!
//! Encoding takes some hundred bytes of memory for each token and can take seconds for a megabyte,
//! so a prompt of megabytes for a context of a thousand tokens is not encoded to be counted.

use cascade_models::Tokenizer;

use crate::error::{ApiError, ApiResult};
use crate::reading::Waiting;

/// Bytes of a text that normalization makes one byte of, at most: full-width letters have three,
/// mathematical ones four.
const NORMALIZED: usize = 4;

/// Bytes for each token that the context has room for from which a text is tried out in parts.
const TRIED: usize = 8;

/// Tokens that a part may have more than the whole text has of it, because it was cut.
const CUT: usize = 64;

/// How long prompts may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PromptRoom {
    /// Tokens of the context.
    pub(crate) context: usize,
    /// Tokens from which a prompt may be refused without being encoded as a whole: the context's,
    /// or more where longer ones are shortened or only counted.
    pub(crate) most: usize,
}

/// Bytes of the longest token as the vocabulary writes it: at least as many as it stands for.
pub(crate) fn longest_token(tokenizer: &Tokenizer) -> usize {
    let ids = 0..u32::try_from(tokenizer.id_bound()).unwrap_or(u32::MAX);
    let pieces = ids.filter_map(|id| tokenizer.id_to_token(id));
    pieces.map(|piece| piece.len()).max().unwrap_or(1).max(1)
}

/// Refuses a text that has more tokens than there is room for: by its bytes, if so many tokens
/// cannot have them, and else by parts from its beginning, each twice as long as the last one, so
/// that no more is ever encoded than about four times the tokens that there is room for. `longest`
/// are the bytes of the longest token.
///
/// Text that a tokenizer leaves out, as some do with repeated blanks, counts with its bytes.
pub(crate) fn check(
    tokenizer: &Tokenizer,
    longest: usize,
    text: &str,
    room: PromptRoom,
    waiting: &Waiting,
) -> ApiResult<()> {
    let most = room.most;
    let bytes = text.len();
    if bytes > most.saturating_mul(longest).saturating_mul(NORMALIZED) {
        let length = format!("{bytes} bytes, more than any {most} tokens");
        return Err(too_long(&length, room.context));
    }
    let mut length = most.saturating_mul(TRIED);
    while length < bytes {
        waiting.check()?;
        let mut end = length;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let tokens = tokenizer
            .encode_plain(&text[..end])
            .map_err(|error| ApiError::field("prompt", error.to_string()))?;
        if tokens.len() > most.saturating_mul(2).saturating_add(CUT) {
            let length = format!("more than {} tokens", tokens.len() - CUT);
            return Err(too_long(&length, room.context));
        }
        length = length.saturating_mul(2);
    }
    waiting.check()
}

/// The error of a prompt of this length.
pub(crate) fn too_long(length: &str, context: usize) -> ApiError {
    ApiError::invalid(format!(
        "the prompt has {length}: the context has room for {context}; shorten the prompt, or raise the server's \
         --max-context if the model has more positions"
    ))
    .with_code("context_length_exceeded")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer() -> Tokenizer {
        cascade_demo::register();
        let config = cascade_config::Config::open("embedded:demo-llama").unwrap();
        config.target.load_tokenizer(&Default::default()).unwrap()
    }

    fn refusal(text: &str, context: usize) -> Option<String> {
        let tokenizer = tokenizer();
        let longest = longest_token(&tokenizer);
        let room = PromptRoom {
            context,
            most: context,
        };
        let checked = check(&tokenizer, longest, text, room, &Waiting::default());
        checked
            .err()
            .map(|error| error.to_json()["error"]["message"].to_string())
    }

    #[test]
    fn no_prompt_that_fits_is_refused() {
        let tokenizer = tokenizer();
        let longest = longest_token(&tokenizer);
        // Of the longest tokens, and of ordinary text, as many as fit.
        let ids = 0..tokenizer.id_bound() as u32;
        let mut pieces = ids.filter_map(|id| tokenizer.id_to_token(id));
        let long = pieces
            .rfind(|piece| piece.len() == longest)
            .unwrap()
            .replace('\u{2581}', " ");
        for word in [&*long, "apples and ", "漢", "𝔞", "\u{ff21}", "12 "] {
            for repeats in [1, 10, 100, 3000] {
                let text = word.repeat(repeats);
                let tokens = tokenizer.encode_plain(&text).unwrap().len();
                assert_eq!(refusal(&text, tokens), None, "{word} {repeats}");
            }
        }
    }

    #[test]
    fn much_too_long_prompts_are_refused_by_bytes_and_by_parts() {
        let by_bytes = refusal(&"ab ".repeat(1_300_000), 64).unwrap();
        assert!(by_bytes.contains("3900000 bytes"), "{by_bytes}");
        assert!(by_bytes.contains("the context has room for 64"));
        let by_parts = refusal(&"a1".repeat(1200), 64).unwrap();
        assert!(by_parts.contains("more than"), "{by_parts}");
        assert!(!by_parts.contains("bytes"), "{by_parts}");
    }

    #[test]
    fn prompts_of_clients_that_are_gone_are_not_encoded() {
        let tokenizer = tokenizer();
        let room = PromptRoom {
            context: 10,
            most: 10,
        };
        let gone = Waiting::of_nobody();
        assert!(check(&tokenizer, 10, "a", room, &gone).is_err());
    }
}
