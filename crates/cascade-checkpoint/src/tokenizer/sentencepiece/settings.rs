//! What the files beside a model of SentencePiece say: tokens, and settings that change ids. Read
//! as transformers 4 reads them.

use serde_json::{Map, Value};

use crate::tokenizer::declared::{Declared, Documents};

/// All that the files say.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// `tokenizer_class`, without "Fast".
    pub(super) class: Option<String>,
    /// `legacy`: whether a space is put before whatever follows a special token; absent means yes.
    pub(super) legacy: bool,
    /// Whether a text is given a space at its beginning; absent means yes.
    pub(super) add_prefix_space: bool,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    /// Sentinels of T5.
    pub(super) extra_ids: usize,
    pub(super) declared: Declared,
}

impl Settings {
    /// Refuses, by name, what changes ids and is not known here.
    pub(super) fn read(documents: &Documents) -> Result<Self, String> {
        let config = &documents.config;
        refuse_unknown(config)?;
        Ok(Self {
            class: class(config)?,
            legacy: flag(config, "legacy")?.unwrap_or(true),
            add_prefix_space: flag(config, "add_prefix_space")?.unwrap_or(true),
            add_bos: flag(config, "add_bos_token")?.unwrap_or(true),
            add_eos: flag(config, "add_eos_token")?.unwrap_or(false),
            extra_ids: extra_ids(config)?,
            declared: Declared::read(documents)?,
        })
    }
}

/// Refuses settings that would change ids in a way that is not followed here.
fn refuse_unknown(config: &Map<String, Value>) -> Result<(), String> {
    let is_set = |key: &str| match config.get(key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Object(map)) => !map.is_empty(),
        Some(_) => true,
    };
    let unknown = ["sp_model_kwargs", "split_special_tokens", "auto_map"];
    match unknown.into_iter().find(|key| is_set(key)) {
        Some(key) => Err(format!(
            "tokenizer_config.json has {key:?}: {}, which is not followed here",
            config[key]
        )),
        None => Ok(()),
    }
}

fn class(config: &Map<String, Value>) -> Result<Option<String>, String> {
    match config.get("tokenizer_class") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(class)) => {
            let class = class.strip_suffix("Fast").unwrap_or(class);
            Ok(Some(class.to_owned()))
        }
        Some(other) => Err(format!(
            "tokenizer_config.json has \"tokenizer_class\": {other}"
        )),
    }
}

/// A setting that is true or false. Releases of transformers disagree about what a null means, but
/// for `legacy`, where it is as good as absent.
fn flag(config: &Map<String, Value>, key: &str) -> Result<Option<bool>, String> {
    match config.get(key) {
        None => Ok(None),
        Some(Value::Null) if key == "legacy" => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(other) => Err(format!(
            "tokenizer_config.json has {key:?}: {other}, neither true nor false"
        )),
    }
}

fn extra_ids(config: &Map<String, Value>) -> Result<usize, String> {
    const DEFAULT: u64 = 100;
    const MOST: u64 = 100_000;
    let count = match config.get("extra_ids") {
        None => Some(DEFAULT),
        Some(value) => value.as_u64(),
    };
    let count = count.filter(|count| *count <= MOST);
    let count = count.and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| {
        format!(
            "tokenizer_config.json has \"extra_ids\": {}",
            config["extra_ids"]
        )
    })
}
