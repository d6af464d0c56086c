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
            Some((_, name)) => (*name, json!(gguf.number(key)?)),
            None => (key, json!(true)),
        };
        config.insert(name.to_owned(), value);
    }
    Ok(Json::Object(config))
}

/// Writes what is recommended.
pub(crate) fn put(recommended: &StatedSampling, entries: &mut Entries) {
    let values = [
        recommended.temperature,
        recommended.top_k.map(|k| k as f32),
        recommended.top_p,
        recommended.min_p,
        recommended.repetition_penalty,
    ];
    for ((name, _), value) in KEYS.iter().zip(values) {
        let key = format!("{START}{name}");
        match value {
            Some(value) if *name == "top_k" => entries.unsigned(&key, value as u32),
            Some(value) => entries.number(&key, value),
            None => {}
        }
    }
}
