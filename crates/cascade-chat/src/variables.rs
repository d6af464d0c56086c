//! Variables that a caller gives to a template, as `apply_chat_template(**kwargs)` of transformers
//! takes them.

use std::collections::BTreeMap;
use std::str::FromStr;

use minijinja::value::{Serde, Value};
use serde_json::Map;

use crate::source::SPECIAL_TOKENS;
use crate::{Error, Result};

/// Names that stand for something else, besides [`SPECIAL_TOKENS`]: what `apply_chat_template` sets
/// or takes itself, and its functions.
const RESERVED: [&str; 23] = [
    "messages",
    "conversation",
    "tools",
    "documents",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "tokenize",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
    "raise_exception",
    "strftime_now",
    "additional_special_tokens",
    "loop",
    "self",
    "namespace",
    "range",
    "dict",
];

/// Variables of a template, such as `enable_thinking`. None by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variables(Map<String, serde_json::Value>);

impl Variables {
    /// The members of a JSON object as variables.
    ///
    /// # Errors
    /// [`Error::Variable`] for a name that stands for something else in every template, such as
    /// `messages`.
    pub fn new(object: Map<String, serde_json::Value>) -> Result<Self> {
        let reserved = |name: &&String| {
            RESERVED.contains(&name.as_str()) || SPECIAL_TOKENS.contains(&name.as_str())
        };
        match object.keys().find(reserved) {
            Some(name) => Err(Error::Variable { name: name.clone() }),
            None => Ok(Self(object)),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// These, and those of `others`, which take precedence.
    pub fn overridden_by(&self, others: Self) -> Self {
        let mut all = self.0.clone();
        all.extend(others.0);
        Self(all)
    }

    /// About how many bytes they take.
    pub(crate) fn size(&self) -> usize {
        let text = |value: &serde_json::Value| 32 + value.to_string().len();
        self.0
            .iter()
            .map(|(name, value)| name.len() + text(value))
            .sum()
    }

    /// The values that a template sees.
    pub(crate) fn values(&self) -> BTreeMap<String, Value> {
        let values = self.0.iter();
        values
            .map(|(name, value)| (name.clone(), Value::from(Serde(value.clone()))))
            .collect()
    }
}

/// A JSON object, as a command line writes variables.
impl FromStr for Variables {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let object = serde_json::from_str(text).map_err(|error| Error::Message {
            problem: format!("{text:?} is not a JSON object: {error}"),
            cure: "write variables as {\"enable_thinking\": false}",
        })?;
        Self::new(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_things_are_refused() {
        for name in RESERVED.into_iter().chain(SPECIAL_TOKENS) {
            let error = format!("{{\"{name}\": 1}}")
                .parse::<Variables>()
                .unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        for text in ["", "[]", "1", "{\"a\": }"] {
            assert!(text.parse::<Variables>().is_err(), "{text}");
        }
    }
}
