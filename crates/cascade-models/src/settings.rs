//! config.json, key by key: what is read, what may stay unread, and what may not.
//!
//! A key that changes a forward pass and is passed over gives other text than the model's, without
//! a word. So nothing is passed over: what an architecture [reads](Settings) is remembered, what is
//! left is looked up in [tables](keys), and what is in no table is warned about by name.

mod keys;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::num::NonZeroUsize;

use serde_json::{Map, Value};

pub(crate) use keys::{DECODER, Keys, Neutral, T5};

use crate::checks::bad;
use crate::{Error, Result};

/// The settings of one config.json, which remembers those that were read.
pub(crate) struct Settings<'a> {
    entries: &'a Map<String, Value>,
    read: BTreeSet<&'static str>,
    warnings: Vec<String>,
}

impl<'a> Settings<'a> {
    /// The settings of `config`.
    ///
    /// # Errors
    /// [`Error::Config`] if it is no object, or holds a number that is too large to be a size.
    pub(crate) fn new(config: &'a Value) -> Result<Self> {
        // Sizes are multiplied with each other, and must not overflow before they are compared with
        // the weights.
        const LIMIT: u64 = 1 << 31;
        let entries = config
            .as_object()
            .ok_or_else(|| bad("it is not an object of settings"))?;
        // A base of rotations is none, and is as large as it likes.
        let mut large = entries.iter().filter(|(key, _)| *key != "rope_theta");
        match large.find(|(_, value)| value.as_u64().is_some_and(|n| n > LIMIT)) {
            Some((key, value)) => Err(bad(format!(
                "{key} is {value}, which no model of this kind has"
            ))),
            None => Ok(Self {
                entries,
                read: BTreeSet::new(),
                warnings: Vec::new(),
            }),
        }
    }

    /// A value as it stands there; `null` is one.
    pub(crate) fn stated(&mut self, key: &'static str) -> Option<&'a Value> {
        self.read.insert(key);
        self.entries.get(key)
    }

    /// A value; `null` is none.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.stated(key).filter(|value| !value.is_null())
    }

    /// A value in a form; `None` if it is absent or `null`.
    pub(crate) fn optional<T>(
        &mut self,
        key: &'static str,
        form: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let value = self.value(key);
        let read = |value| read(value).ok_or_else(|| not(key, value, form));
        value.map(read).transpose()
    }

    /// A count; `None` if it is absent or `null`.
    pub(crate) fn optional_size(&mut self, key: &'static str) -> Result<Option<usize>> {
        self.optional(key, "a whole number", size)
    }

    /// A count that must be there.
    pub(crate) fn size(&mut self, key: &'static str) -> Result<usize> {
        let size = self.optional_size(key)?;
        size.ok_or_else(|| bad(format!("{key} is missing")))
    }

    /// A number, or what it is if it is absent.
    pub(crate) fn number(&mut self, key: &'static str, absent: f64) -> Result<f64> {
        let number = self.optional(key, "a number", Value::as_f64)?;
        Ok(number.unwrap_or(absent))
    }

    /// Yes or no, or what it is if it is absent.
    pub(crate) fn flag(&mut self, key: &'static str, absent: bool) -> Result<bool> {
        let flag = self.optional(key, "true or false", Value::as_bool)?;
        Ok(flag.unwrap_or(absent))
    }

    /// A word, or what it is if it is absent.
    pub(crate) fn text(&mut self, key: &'static str, absent: &'static str) -> Result<&'a str> {
        let text = self.optional(key, "a text", Value::as_str)?;
        Ok(text.unwrap_or(absent))
    }

    /// How many positions a token sees, itself included: `null` and 0 are all, and `absent` counts
    /// if it is not said.
    pub(crate) fn window(
        &mut self,
        key: &'static str,
        absent: Option<usize>,
    ) -> Result<Option<NonZeroUsize>> {
        let window = match self.stated(key) {
            None => absent,
            Some(Value::Null) => None,
            Some(value) => {
                let window = size(value);
                Some(window.ok_or_else(|| not(key, value, "a whole number or null"))?)
            }
        };
        Ok(window.and_then(NonZeroUsize::new))
    }

    /// Something that the user should know.
    pub(crate) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Keys that were not read, but those that are `null`.
    pub(crate) fn unread(&self) -> impl Iterator<Item = &'a str> + '_ {
        let entries = self.entries.iter().filter(|(_, value)| !value.is_null());
        let keys = entries.map(|(key, _)| key.as_str());
        keys.filter(|key| !self.read.contains(key))
    }

    /// Looks up the keys that were not read.
    ///
    /// # Errors
    /// [`Error::Config`] for the first of them that changes a forward pass.
    pub(crate) fn finish(self, keys: &Keys) -> Result<Vec<String>> {
        let mut unknown = Vec::new();
        // The configuration itself says that the window is none.
        let unused = |key: &str| {
            key == "sliding_window"
                && self.entries.get("use_sliding_window") == Some(&Value::Bool(false))
        };
        let unread = self.unread().filter(|key| !keys.is_harmless(key));
        for key in unread.filter(|key| !unused(key)) {
            let value = &self.entries[key];
            match keys.neutral(key) {
                Some(neutral) if neutral.is(value) => {}
                Some(neutral) => return Err(refused(key, value, neutral)),
                None => unknown.push(key),
            }
        }
        let mut warnings = self.warnings;
        if !unknown.is_empty() {
            warnings.push(format!(
                "config.json has settings that are not known here: {}; if one of them changes what \
                 the model computes, its output is wrong: compare with transformers",
                unknown.join(", ")
            ));
        }
        Ok(warnings)
    }
}

/// A value as a count.
pub(crate) fn size(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|size| usize::try_from(size).ok())
}

/// The error of a value that has not its form.
pub(crate) fn not(key: &str, value: &Value, form: &str) -> Error {
    bad(format!("{key} is {value}, which is not {form}"))
}

/// The error of a setting that there is no code for.
pub(crate) fn unsupported(what: impl Display) -> Error {
    let problem = format!("{what} is not supported");
    Error::config("config.json", problem, "take a model without it")
}

fn refused(key: &str, value: &Value, neutral: &Neutral) -> Error {
    unsupported(format!(
        "{key} {value}, which changes what the model computes ({neutral} would not),"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn left(config: &Value, read: &[&'static str]) -> Result<Vec<String>> {
        let mut settings = Settings::new(config)?;
        for &key in read {
            settings.stated(key);
        }
        settings.finish(&DECODER)
    }

    #[test]
    fn nothing_is_passed_over_in_silence() {
        let harmless = json!({"torch_dtype": "float16", "use_cache": true, "logits_scaling": 1,
            "quantization_config": null, "attn_logit_softcapping": null, "mine": 3});
        assert_eq!(left(&harmless, &["mine"]).unwrap(), [""; 0]);
        let warnings = left(&harmless, &[]).unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains(": mine;"), "{warnings:?}");
    }

    #[test]
    fn what_changes_a_forward_is_refused_by_name() {
        for (key, value) in [
            ("attention_bias", json!(true)),
            ("partial_rotary_factor", json!(0.5)),
            ("attn_logit_softcapping", json!(50.0)),
            ("final_logit_softcapping", json!(30.0)),
            ("query_pre_attn_scalar", json!(256)),
            ("residual_multiplier", json!(0.22)),
            ("embedding_multiplier", json!(12)),
            ("logits_scaling", json!(8)),
            ("attention_multiplier", json!(0.0078125)),
            ("no_rope_layers", json!([1, 1, 0])),
            (
                "layer_types",
                json!(["full_attention", "sliding_attention"]),
            ),
            ("quantization_config", json!({"bits": 4})),
            ("num_local_experts", json!(8)),
            ("sliding_window", json!(4096)),
        ] {
            let message = left(&json!({key: value}), &[]).unwrap_err().to_string();
            assert!(message.contains(key), "{message}");
        }
    }

    #[test]
    fn values_of_another_form_are_named() {
        let config = json!({"count": "three", "share": [], "on": 1, "name": 2, "window": -1});
        let mut settings = Settings::new(&config).unwrap();
        let messages = [
            settings.size("count").unwrap_err(),
            settings.size("other").unwrap_err(),
            settings.number("share", 0.0).unwrap_err(),
            settings.flag("on", false).unwrap_err(),
            settings.text("name", "").unwrap_err(),
            settings.window("window", None).unwrap_err(),
        ];
        let messages = messages.map(|error| error.to_string());
        let expected = [
            "count is \"three\"",
            "other is missing",
            "share is []",
            "on is 1",
            "name is 2",
            "window is -1",
        ];
        for (message, expected) in messages.iter().zip(expected) {
            assert!(message.contains(expected), "{message}");
        }
        assert!(Settings::new(&json!([1])).is_err());
        assert!(Settings::new(&json!({"hidden_size": u64::MAX})).is_err());
    }

    #[test]
    fn a_window_may_be_none() {
        let config = json!({"none": null, "zero": 0, "seven": 7});
        let mut settings = Settings::new(&config).unwrap();
        let mut window = |key| {
            settings
                .window(key, Some(9))
                .unwrap()
                .map(NonZeroUsize::get)
        };
        assert_eq!(window("none"), None);
        assert_eq!(window("zero"), None);
        assert_eq!(window("seven"), Some(7));
        assert_eq!(window("absent"), Some(9));
    }
}
