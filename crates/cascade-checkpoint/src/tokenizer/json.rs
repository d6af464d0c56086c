//! tokenizer.json, the format of Hugging Face's `tokenizers`, and what transformers adds to it from
//! the files beside it.

use serde_json::{Map, Value};
use tokenizers::{AddedToken, Tokenizer};

use super::declared::{Content, Declared};

type Outcome<T> = std::result::Result<T, String>;

/// What the user should know of a tokenizer that was built of it: tokens that have other ids
/// than the files say, in transformers too.
pub(super) fn warnings(content: &Content, tokenizer: &Tokenizer) -> Vec<String> {
    let Ok(declared) = Declared::read(&content.documents) else {
        return Vec::new();
    };
    let misplaced = declared.added.iter().filter_map(|(&id, token)| {
        let found = tokenizer.token_to_id(&token.content)?;
        (found != id).then(|| {
            format!(
                "the files beside tokenizer.json give {:?} the id {id}, and it has {found}, \
                 as in transformers",
                token.content
            )
        })
    });
    misplaced.collect()
}

/// The tokenizer that the files describe. May panic where the library does.
pub(super) fn build(content: &Content) -> Outcome<Tokenizer> {
    let config = &content.documents.config;
    if let Some(set @ Value::Bool(true)) = config.get("split_special_tokens") {
        return Err(format!(
            "tokenizer_config.json has \"split_special_tokens\": {set}, which is not followed here"
        ));
    }
    let declared = Declared::read(&content.documents)?;
    let mut tokenizer = if has_no_prefix(config) {
        parse(&without_prefix(&content.vocabulary)?)?
    } else {
        parse(&content.vocabulary)?
    };
    let special = declared
        .special_tokens(&[])
        .into_iter()
        .chain(declared.additional.clone().unwrap_or_default());
    let added = tokenizer.get_added_tokens_decoder();
    let is_added = |content: &str| added.values().any(|token| token.content == content);
    let tokens: Vec<AddedToken> = declared.in_order(special, is_added);
    let added = tokenizer.add_tokens(tokens);
    added.map_err(|error| error.to_string())?;
    Ok(tokenizer)
}

/// The tokenizer that a tokenizer.json describes by itself. May panic where the library does.
pub(super) fn parse(bytes: &[u8]) -> Outcome<Tokenizer> {
    // Found first, because the library panics on some of that too.
    let valid: serde_json::Result<serde::de::IgnoredAny> = serde_json::from_slice(bytes);
    valid.map_err(|error| error.to_string())?;
    Tokenizer::from_bytes(bytes).map_err(|error| error.to_string())
}

/// Whether the files beside tokenizer.json say that texts are given no space at their beginning,
/// which transformers follows for this class.
fn has_no_prefix(config: &Map<String, Value>) -> bool {
    let class = config.get("tokenizer_class").and_then(Value::as_str);
    let is_llama = matches!(class, Some("LlamaTokenizer" | "LlamaTokenizerFast"));
    is_llama && config.get("add_prefix_space") == Some(&Value::Bool(false))
}

/// A tokenizer.json without what puts a space before texts, and takes it away.
fn without_prefix(bytes: &[u8]) -> Outcome<Vec<u8>> {
    let json: serde_json::Result<Value> = serde_json::from_slice(bytes);
    let mut json = json.map_err(|error| error.to_string())?;
    for (part, members) in [
        ("normalizer", "normalizers"),
        ("pre_tokenizer", "pretokenizers"),
        ("decoder", "decoders"),
    ] {
        let step = &mut json[part];
        if is_prefix(step) {
            *step = Value::Null;
        }
        prefix_nothing(step);
        if let Some(list) = step.get_mut(members).and_then(Value::as_array_mut) {
            list.retain(|step| !is_prefix(step));
            list.iter_mut().for_each(prefix_nothing);
        }
    }
    serde_json::to_vec(&json).map_err(|error| error.to_string())
}

/// Whether a step does nothing else than to put a space before a text or to take one away.
fn is_prefix(step: &Value) -> bool {
    match step["type"].as_str() {
        Some("Prepend") => true,
        Some("Strip") => step["content"] == " " && step["start"] == 1,
        _ => false,
    }
}

fn prefix_nothing(step: &mut Value) {
    if step["type"] == "Metaspace" {
        step["prepend_scheme"] = Value::from("never");
        if let Some(step) = step.as_object_mut() {
            step.remove("add_prefix_space");
        }
    }
}
