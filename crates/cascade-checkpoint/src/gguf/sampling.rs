//! The sampling that a GGUF file recommends, in keys that llama.cpp writes and follows.

use cascade_core::StatedSampling;
use serde_json::{Map, Value as Json, json};

use super::Gguf;
use super::write::Entries;
use crate::Result;

/// What the keys begin with.
const START: &str = "general.sampling.";

/// Keys, and what generation_config.json calls them.
const KEYS: [(&str, &str); 5] = [
    ("temp", "temperature"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("penalty_repeat", "repetition_penalty"),
];

/// What generation_config.json would say. Keys that it has no name for stand under their own, with
/// nothing but `true`.
///
/// # Errors
/// A key of another type.
pub(crate) fn generation_config(gguf: &Gguf) -> Result<Json> {
    let mut config = Map::new();
    for key in gguf.keys() {
        let Some(name) = key.strip_prefix(START) else {
            continue;
        };
        let (name, value) = match KEYS.iter().find(|(own, _)| *own == name) {
            Some((_, name)) => (*name, gguf.number(key)?.map_or(Json::Null, whole)),
            None => (key, json!(true)),
        };
        config.insert(name.to_owned(), value);
    }
    Ok(Json::Object(config))
}

/// A number without a fraction is written without one.
fn whole(number: f64) -> Json {
    if number >= 0.0 && number.fract() == 0.0 {
        json!(number as u64)
    } else {
        json!(number)
    }
}

/// Writes what is recommended.
pub(crate) fn put(recommended: &StatedSampling, entries: &mut Entries) {
    let numbers = [
        ("temp", recommended.temperature),
        ("top_p", recommended.top_p),
        ("min_p", recommended.min_p),
        ("penalty_repeat", recommended.repetition_penalty),
    ];
    for (key, number) in numbers {
        if let Some(number) = number {
            entries.number(&format!("{START}{key}"), number);
        }
    }
    if let Some(k) = recommended.top_k.and_then(|k| u32::try_from(k).ok()) {
        entries.unsigned(&format!("{START}top_k"), k);
    }
}
