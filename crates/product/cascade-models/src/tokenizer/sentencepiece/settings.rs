//! What the files beside a model of SentencePiece say: special and added tokens, and settings that
//! change ids. Read as transformers 4 reads them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tokenizers::AddedToken;

/// The content of the files, each an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Documents {
    /// tokenizer_config.json.
    pub(super) config: Map<String, Value>,
    /// special_tokens_map.json.
    pub(super) special_tokens: Map<String, Value>,
    /// added_tokens.json.
    pub(super) added_tokens: Map<String, Value>,
}

/// Names of special tokens, in the order in which transformers adds those that are new.
const SPECIAL: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];
const ADDITIONAL: &str = "additional_special_tokens";

/// All that the files say.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// `tokenizer_class`, without "Fast".
    pub(super) class: Option<String>,
    /// Tokens by id.
    pub(super) added: BTreeMap<u32, AddedToken>,
    /// `legacy`: whether a space is put before whatever follows a special token; absent means yes.
    pub(super) legacy: bool,
    /// Whether a text is given a space at its beginning; absent means yes.
    pub(super) add_prefix_space: bool,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    /// Sentinels of T5.
    pub(super) extra_ids: usize,
    /// Special tokens by what they are for; `None` is a null.
    special: BTreeMap<&'static str, Option<AddedToken>>,
    /// Further special tokens; `None` if none are named.
    pub(super) additional: Option<Vec<AddedToken>>,
}

impl Settings {
    /// Refuses, by name, what changes ids and is not known here.
    pub(super) fn read(documents: &Documents) -> Result<Self, String> {
        let config = &documents.config;
        refuse_unknown(config)?;
        let mut names = config.clone();
        let mut added = BTreeMap::new();
        match config.get("added_tokens_decoder") {
            Some(decoder) => {
                for (id, token) in object("added_tokens_decoder", decoder)? {
                    let number = id
                        .parse()
                        .map_err(|_| format!("an added token has id {id:?}"))?;
                    let token = token_of("added_tokens_decoder", token)?;
                    let token = token.ok_or_else(|| format!("the added token {id} is null"))?;
                    added.insert(number, token);
                }
            }
            // The older form.
            None => {
                names.extend(documents.special_tokens.clone());
                let special = special_contents(&names)?;
                for (content, id) in &documents.added_tokens {
                    let number = id.as_u64().and_then(|id| u32::try_from(id).ok());
                    let number = number.ok_or_else(|| {
                        format!("added_tokens.json gives {content:?} the id {id}")
                    })?;
                    let token = AddedToken::from(content.clone(), special.contains(content));
                    if added.insert(number, token).is_some() {
                        return Err(format!("added_tokens.json has two tokens of id {id}"));
                    }
                }
            }
        }
        let mut special = BTreeMap::new();
        for name in SPECIAL {
            if let Some(value) = names.get(name) {
                special.insert(
                    name,
                    token_of(name, value)?.map(|token| token.special(true)),
                );
            }
        }
        Ok(Self {
            class: class(config)?,
            added,
            legacy: flag(config, "legacy")?.unwrap_or(true),
            add_prefix_space: flag(config, "add_prefix_space")?.unwrap_or(true),
            add_bos: flag(config, "add_bos_token")?.unwrap_or(true),
            add_eos: flag(config, "add_eos_token")?.unwrap_or(false),
            extra_ids: extra_ids(config)?,
            special,
            additional: additional(&names)?,
        })
    }

    /// The special token for `name`, which is `default` if the files do not say.
    pub(super) fn special(&self, name: &str, default: Option<&str>) -> Option<AddedToken> {
        match self.special.get(name) {
            Some(token) => token.clone(),
            None => default.map(|content| AddedToken::from(content, true)),
        }
    }

    /// All special tokens but the additional ones, in order.
    pub(super) fn special_tokens(&self, defaults: &[(&str, &str)]) -> Vec<AddedToken> {
        let default = |name: &str| {
            defaults
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, token)| *token)
        };
        let tokens = SPECIAL.iter();
        tokens
            .filter_map(|name| self.special(name, default(name)))
            .collect()
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

fn additional(names: &Map<String, Value>) -> Result<Option<Vec<AddedToken>>, String> {
    let tokens = match names.get(ADDITIONAL) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(tokens)) => tokens,
        Some(other) => return Err(format!("{ADDITIONAL} is {other}, not a list")),
    };
    let token = |token| match token_of(ADDITIONAL, token)? {
        Some(token) => Ok(token.special(true)),
        None => Err(format!("{ADDITIONAL} has a null")),
    };
    tokens
        .iter()
        .map(token)
        .collect::<Result<_, String>>()
        .map(Some)
}

/// The special tokens' contents.
fn special_contents(names: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut contents = Vec::new();
    for name in SPECIAL {
        if let Some(value) = names.get(name) {
            contents.extend(token_of(name, value)?.map(|token| token.content));
        }
    }
    let additional = additional(names)?.unwrap_or_default();
    contents.extend(additional.into_iter().map(|token| token.content));
    Ok(contents)
}

/// A token: a text, or an object with its content and how it is matched.
fn token_of(name: &str, value: &Value) -> Result<Option<AddedToken>, String> {
    let object = match value {
        Value::Null => return Ok(None),
        Value::String(content) => return Ok(Some(AddedToken::from(content.clone(), true))),
        Value::Object(object) => object,
        other => return Err(format!("{name} is {other}, which is no token")),
    };
    let Some(content) = object.get("content").and_then(Value::as_str) else {
        return Err(format!("{name} has a token without content"));
    };
    let flag = |key: &str, default: bool| match object.get(key) {
        None => Ok(default),
        Some(Value::Bool(value)) => Ok(*value),
        Some(other) => Err(format!("{name} has a token whose {key} is {other}")),
    };
    let special = flag("special", false)?;
    let token = AddedToken::from(content, special)
        .single_word(flag("single_word", false)?)
        .lstrip(flag("lstrip", false)?)
        .rstrip(flag("rstrip", false)?)
        .normalized(flag("normalized", !special)?);
    Ok(Some(token))
}

fn object<'a>(name: &str, value: &'a Value) -> Result<&'a Map<String, Value>, String> {
    value
        .as_object()
        .ok_or_else(|| format!("{name} is {value}, not an object"))
}
