//! tokenizer.json, the format of Hugging Face's `tokenizers`.

/// The tokenizer that a file describes. May panic where the library does.
pub(super) fn parse(bytes: &[u8]) -> Result<tokenizers::Tokenizer, String> {
    // Found first, because the library panics on some of that too.
    let valid: serde_json::Result<serde::de::IgnoredAny> = serde_json::from_slice(bytes);
    valid.map_err(|error| error.to_string())?;
    tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| error.to_string())
}
