//! The tokens that the files beside a vocabulary declare: added ones and special ones.

use std::collections::BTreeMap;

use cascade_hub::{ModelFile, VocabularyFiles};
use serde_json::{Map, Value};
use tokenizers::AddedToken;

use crate::{Error, Result, read_json};

/// What files say, or why it cannot be followed.
type Outcome<T> = std::result::Result<T, String>;

/// The content of a tokenizer's files.
pub(super) struct Content {
    pub(super) vocabulary: Vec<u8>,
    pub(super) documents: Documents,
}

impl Content {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read, or is not what it should be.
    pub(super) fn read(files: &VocabularyFiles) -> Result<Self> {
        Ok(Self {
            vocabulary: files.vocabulary.read()?.into_owned(),
            documents: Documents {
                config: document(files.config.as_ref())?,
                special_tokens: document(files.special_tokens.as_ref())?,
                added_tokens: document(files.added_tokens.as_ref())?,
            },
        })
    }
}

/// The files beside a vocabulary, each an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Documents {
    /// tokenizer_config.json.
    pub(super) config: Map<String, Value>,
    /// special_tokens_map.json.
    pub(super) special_tokens: Map<String, Value>,
    /// added_tokens.json.
    pub(super) added_tokens: Map<String, Value>,
}

fn document(file: Option<&ModelFile>) -> Result<Map<String, Value>> {
    let Some(file) = file else {
        return Ok(Map::new());
    };
    match read_json(file)? {
        Value::Object(object) => Ok(object),
        _ => Err(Error::json(file, ": it is not a JSON object")),
    }
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
/// Further special tokens: a list, as transformers 5 and 4 call it.
const ADDITIONAL: [&str; 2] = ["extra_special_tokens", "additional_special_tokens"];

/// The tokens that the files declare.
#[derive(Clone, Debug, Default)]
pub(super) struct Declared {
    /// Tokens by id.
    pub(super) added: BTreeMap<u32, AddedToken>,
    /// Special tokens by what they are for; `None` is a null.
    special: BTreeMap<&'static str, Option<AddedToken>>,
    /// Further special tokens; `None` if none are named.
    pub(super) additional: Option<Vec<AddedToken>>,
}

impl Declared {
    pub(super) fn read(documents: &Documents) -> Outcome<Self> {
        let decoder = documents.config.get("added_tokens_decoder");
        let mut names = documents.config.clone();
        if decoder.is_none() {
            names.extend(documents.special_tokens.clone());
        }
        let mut special = BTreeMap::new();
        for name in SPECIAL {
            if let Some(value) = names.get(name) {
                let token = token_of(name, value)?;
                special.insert(name, token.map(|token| token.special(true)));
            }
        }
        let additional = additional(&names)?;
        let added = match decoder {
            Some(decoder) => by_id(decoder)?,
            None => {
                let further = additional.iter().flatten();
                let special: Vec<&AddedToken> = special.values().flatten().chain(further).collect();
                of_the_older_form(&documents.added_tokens, &special)?
            }
        };
        Ok(Self {
            added,
            special,
            additional,
        })
    }

    /// The tokens that are added to those of a vocabulary, in the order of transformers: new ones
    /// are numbered in this order. `known` are those that have been added, by their contents.
    pub(super) fn in_order(
        &self,
        special: impl Iterator<Item = AddedToken>,
        known: impl Fn(&str) -> bool,
    ) -> Vec<AddedToken> {
        let special: Vec<AddedToken> = special.collect();
        let is_special = |content: &str| special.iter().any(|token| token.content == content);
        let added = self.added.values().cloned().map(|token| {
            let special = token.special || is_special(&token.content);
            token.special(special)
        });
        let mut tokens: Vec<AddedToken> = added.collect();
        for token in special {
            let here = tokens.iter().any(|added| added.content == token.content);
            if !here && !known(&token.content) {
                tokens.push(token);
            }
        }
        tokens
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

/// added_tokens_decoder.
fn by_id(decoder: &Value) -> Outcome<BTreeMap<u32, AddedToken>> {
    const NAME: &str = "added_tokens_decoder";
    let mut added = BTreeMap::new();
    for (id, token) in object(NAME, decoder)? {
        let number = id
            .parse()
            .map_err(|_| format!("an added token has id {id:?}"))?;
        let token =
            token_of(NAME, token)?.ok_or_else(|| format!("the added token {id} is null"))?;
        added.insert(number, token);
    }
    Ok(added)
}

/// added_tokens.json.
fn of_the_older_form(
    tokens: &Map<String, Value>,
    special: &[&AddedToken],
) -> Outcome<BTreeMap<u32, AddedToken>> {
    let mut added = BTreeMap::new();
    for (content, id) in tokens {
        let number = id
            .as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .ok_or_else(|| format!("added_tokens.json gives {content:?} the id {id}"))?;
        let special = special.iter().any(|token| token.content == *content);
        let token = AddedToken::from(content.clone(), special);
        if added.insert(number, token).is_some() {
            return Err(format!("added_tokens.json has two tokens of id {id}"));
        }
    }
    Ok(added)
}

/// The further special tokens; `None` if none are named. Some files have the older list beside the
/// newer one, which is then followed.
fn additional(names: &Map<String, Value>) -> Outcome<Option<Vec<AddedToken>>> {
    for key in ADDITIONAL {
        let tokens: Vec<&Value> = match names.get(key) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(tokens)) => tokens.iter().collect(),
            // By what they are for.
            Some(Value::Object(tokens)) if tokens.is_empty() => continue,
            Some(Value::Object(tokens)) => tokens.values().collect(),
            Some(other) => return Err(format!("{key} is {other}, not a list")),
        };
        let token = |token| match token_of(key, token)? {
            Some(token) => Ok(token.special(true)),
            None => Err(format!("{key} has a null")),
        };
        return tokens
            .into_iter()
            .map(token)
            .collect::<Outcome<_>>()
            .map(Some);
    }
    Ok(None)
}

/// A token: a text, or an object with its content and how it is matched.
fn token_of(name: &str, value: &Value) -> Outcome<Option<AddedToken>> {
    let object = match value {
        Value::Null => return Ok(None),
        Value::String(content) => return Ok(Some(AddedToken::from(content.clone(), true))),
        Value::Object(object) => object,
        other => return Err(format!("{name} is {other}, which is not a token")),
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

fn object<'a>(name: &str, value: &'a Value) -> Outcome<&'a Map<String, Value>> {
    value
        .as_object()
        .ok_or_else(|| format!("{name} is {value}, not an object"))
}
