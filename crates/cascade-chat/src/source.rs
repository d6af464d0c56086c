//! The chat templates that a model comes with.

use std::collections::BTreeMap;

use minijinja::Value as JinjaValue;
use serde_json::{Value, json};

use crate::{ChatTemplate, Error, Result};

/// A file of a model that may hold templates or special tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChatFile {
    /// `chat_template.jinja`: a template.
    Jinja,
    /// `tokenizer_config.json`: special tokens, and a template or a list of named ones.
    TokenizerConfig,
    /// `special_tokens_map.json`: special tokens.
    SpecialTokens,
    /// `chat_template.json`: a template, in models of an earlier time.
    Json,
}

impl ChatFile {
    /// All files, each after those that come before it in case of doubt.
    pub const ALL: [Self; 4] = [
        Self::Jinja,
        Self::TokenizerConfig,
        Self::SpecialTokens,
        Self::Json,
    ];

    /// The name of the file in a model's folder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jinja => "chat_template.jinja",
            Self::TokenizerConfig => "tokenizer_config.json",
            Self::SpecialTokens => "special_tokens_map.json",
            Self::Json => "chat_template.json",
        }
    }
}

/// The templates of a model: at least one.
#[derive(Clone, Debug)]
pub struct ChatTemplates {
    place: String,
    templates: BTreeMap<String, ChatTemplate>,
}

/// Tokens that templates know by name.
pub(crate) const SPECIAL_TOKENS: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// What a model calls the template that is meant if none is named.
const DEFAULT: &str = "default";

/// What a model's files say about chats.
#[derive(Clone, Debug)]
pub struct ModelChat {
    place: String,
    files: Vec<(ChatFile, Vec<u8>)>,
}

impl ModelChat {
    /// The files of a model; `place` is where these are, for messages.
    pub fn new(place: impl Into<String>, files: Vec<(ChatFile, Vec<u8>)>) -> Self {
        let place = place.into();
        Self { place, files }
    }

    /// The templates; `None` if there are none. A `chat_template.jinja` takes precedence, as in
    /// transformers.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is not what it should be; [`Error::Syntax`] for a template
    /// that is not valid, whether it is asked for or not.
    pub fn templates(&self) -> Result<Option<ChatTemplates>> {
        let (tokens, sources) = self.gather()?;
        let place = &self.place;
        let mut templates = BTreeMap::new();
        for (name, source, kind) in sources {
            let called = if name == DEFAULT {
                format!("{place} ({})", kind.name())
            } else {
                format!("{place} ({}, {name})", kind.name())
            };
            let template = ChatTemplate::new(called, &source)?;
            templates.insert(name, template.with_special_tokens(tokens.clone()));
        }
        Ok((!templates.is_empty()).then(|| ChatTemplates {
            place: place.clone(),
            templates,
        }))
    }

    /// What one tokenizer_config.json would say with all that the files say: the special tokens
    /// that templates know by name, as texts, and `chat_template`, as a text or as a list with
    /// names. What they do not have is absent.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is not what it should be.
    pub fn as_tokenizer_config(&self) -> Result<Value> {
        let (tokens, sources) = self.gather()?;
        let mut config: serde_json::Map<String, Value> = tokens
            .into_iter()
            .map(|(name, token)| (name, Value::String(token.to_string())))
            .collect();
        let template = match sources.as_slice() {
            [] => None,
            [(name, source, _)] if name == DEFAULT => Some(Value::String(source.clone())),
            several => {
                let several = several.iter();
                let named =
                    several.map(|(name, source, _)| json!({"name": name, "template": source}));
                Some(named.collect())
            }
        };
        config.extend(template.map(|template| ("chat_template".to_owned(), template)));
        Ok(Value::Object(config))
    }

    /// Whether the files hold a template, valid or not.
    pub fn has_template(&self) -> bool {
        self.files.iter().any(|(kind, bytes)| match kind {
            ChatFile::Jinja => true,
            _ => serde_json::from_slice::<Value>(bytes)
                .is_ok_and(|json| !json["chat_template"].is_null()),
        })
    }

    /// A template from elsewhere with the special tokens of the model.
    ///
    /// # Errors
    /// [`Error::File`] for a `tokenizer_config.json` that is not JSON.
    pub fn adopt(&self, template: ChatTemplate) -> Result<ChatTemplate> {
        let mut tokens = BTreeMap::new();
        for kind in [ChatFile::TokenizerConfig, ChatFile::SpecialTokens] {
            if let Some((file, bytes)) = self.file(kind) {
                note_special_tokens(&mut tokens, &parsed(&file, bytes)?);
            }
        }
        Ok(template.with_special_tokens(tokens))
    }

    /// A file, by its name for messages.
    fn file(&self, kind: ChatFile) -> Option<(String, &[u8])> {
        let (_, bytes) = self.files.iter().find(|(known, _)| *known == kind)?;
        Some((format!("{}: {}", self.place, kind.name()), bytes))
    }

    /// What all files say together.
    fn gather(&self) -> Result<(Tokens, Sources)> {
        let mut tokens = BTreeMap::new();
        let mut sources = Sources::new();
        for kind in ChatFile::ALL {
            let Some((file, bytes)) = self.file(kind) else {
                continue;
            };
            let found = match kind {
                ChatFile::Jinja => vec![(DEFAULT.to_owned(), text(&file, bytes)?)],
                _ => {
                    let json = parsed(&file, bytes)?;
                    note_special_tokens(&mut tokens, &json);
                    templates(&file, &json["chat_template"])?
                }
            };
            if sources.is_empty() {
                let found = found.into_iter();
                sources.extend(found.map(|(name, source)| (name, source, kind)));
            }
        }
        Ok((tokens, sources))
    }
}

/// Special tokens by name.
type Tokens = BTreeMap<String, JinjaValue>;
/// Templates: names, sources, and the file that they are in.
type Sources = Vec<(String, String, ChatFile)>;

impl ChatTemplates {
    /// The template of a name, or the one that is meant if none is named.
    ///
    /// # Errors
    /// [`Error::Unknown`], with the names there are.
    pub fn get(&self, name: Option<&str>) -> Result<&ChatTemplate> {
        let name = name.unwrap_or(DEFAULT);
        self.templates.get(name).ok_or_else(|| Error::Unknown {
            place: self.place.clone(),
            name: name.to_owned(),
            known: self.templates.keys().cloned().collect(),
        })
    }

    /// The names of the templates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.templates.keys().map(String::as_str)
    }
}

fn text(file: &str, bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned)
        .map_err(|error| bad(file, format!("it is not UTF-8: {error}")))
}

fn parsed(file: &str, bytes: &[u8]) -> Result<Value> {
    let json: Value = serde_json::from_slice(bytes)
        .map_err(|error| bad(file, format!("it is not JSON: {error}")))?;
    if json.is_object() {
        Ok(json)
    } else {
        Err(bad(file, "it is not a JSON object".to_owned()))
    }
}

/// A template, or a list of `{"name": …, "template": …}`.
fn templates(file: &str, entry: &Value) -> Result<Vec<(String, String)>> {
    let wrong = || {
        let problem = "\"chat_template\" is neither a string nor a list of named templates";
        bad(file, problem.to_owned())
    };
    match entry {
        Value::Null => Ok(Vec::new()),
        Value::String(source) => Ok(vec![(DEFAULT.to_owned(), source.clone())]),
        Value::Array(named) => named
            .iter()
            .map(|entry| {
                let name = entry["name"].as_str().ok_or_else(wrong)?;
                let source = entry["template"].as_str().ok_or_else(wrong)?;
                Ok((name.to_owned(), source.to_owned()))
            })
            .collect(),
        _ => Err(wrong()),
    }
}

/// Notes the special tokens of a file, unless they are known. A tokenizer of the LLaMA class has
/// tokens of its own where its file names none.
fn note_special_tokens(tokens: &mut BTreeMap<String, JinjaValue>, json: &Value) {
    let class = json["tokenizer_class"].as_str().unwrap_or_default();
    let of_class = |name: &str| match name {
        _ if !matches!(class, "LlamaTokenizer" | "LlamaTokenizerFast") => None,
        "bos_token" => Some("<s>"),
        "eos_token" => Some("</s>"),
        "unk_token" => Some("<unk>"),
        _ => None,
    };
    for name in SPECIAL_TOKENS {
        let token = match json.get(name) {
            None => of_class(name),
            Some(Value::String(token)) => Some(token.as_str()),
            Some(added) => added["content"].as_str(),
        };
        if let Some(token) = token {
            tokens
                .entry(name.to_owned())
                .or_insert_with(|| JinjaValue::from(token));
        }
    }
}

fn bad(file: &str, problem: String) -> Error {
    Error::File {
        file: file.to_owned(),
        problem,
    }
}
