//! The fields of a request, each of which is read, left unread with a warning, or refused by name.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{ApiError, ApiResult};
use crate::unique::UniqueObject;

/// The largest integer that every JSON reader keeps.
const LARGEST: u64 = 1 << 53;

/// An object of a request whose fields are taken one by one. A field that is null counts as absent,
/// and one that is `[]` or `{}` too unless the server is strict.
#[derive(Debug)]
pub(crate) struct Fields {
    fields: Map<String, Value>,
    /// Where the object is, with a dot behind it.
    place: String,
    /// Whether what is left unread is refused.
    strict: bool,
    /// The names that were asked for.
    asked: Vec<String>,
    /// What the client should know of fields, in sentences.
    warnings: Vec<String>,
}

impl Fields {
    /// The fields of a request's body; if they are read in a `strict` way, none may be left unread.
    pub(crate) fn parse(body: &[u8], strict: bool) -> ApiResult<Self> {
        let fields = serde_json::from_slice::<UniqueObject>(body).map_err(|error| {
            ApiError::invalid(format!(
                "the body is not a JSON object as it should be: {error}"
            ))
        })?;
        Ok(Self::of(fields.0, String::new(), strict))
    }

    fn of(fields: Map<String, Value>, place: String, strict: bool) -> Self {
        Self {
            fields,
            place,
            strict,
            asked: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Whether what is left unread is refused.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Says something of the request to its client.
    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Says that a field is not read, because whatever it is changes nothing of the answer.
    pub(crate) fn ignore(&mut self, name: &str) {
        let name = format!("{}{name}", self.place);
        self.warn(format!(
            "`{}` changed nothing: this server does not read it",
            shortened(&name)
        ));
    }

    /// An error of a field.
    pub(crate) fn wrong(&self, name: &str, problem: impl Into<String>) -> ApiError {
        ApiError::field(format!("{}{name}", self.place), problem)
    }

    /// A field as it is; nothing if it is absent in other words.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.asked.push(name.to_owned());
        let value = self.fields.shift_remove(name)?;
        (!is_nothing(&value, self.strict)).then_some(value)
    }

    /// Whether a field is there, which nobody has taken.
    pub(crate) fn has(&self, name: &str) -> bool {
        let value = self.fields.get(name);
        value.is_some_and(|value| !is_nothing(value, self.strict))
    }

    /// A field that must be there.
    pub(crate) fn required(&mut self, name: &str) -> ApiResult<Value> {
        self.take(name)
            .ok_or_else(|| self.wrong(name, "it is missing; give it"))
    }

    pub(crate) fn boolean(&mut self, name: &str) -> ApiResult<Option<bool>> {
        self.read(name, "true or false", |value| value.as_bool())
    }

    /// A field that is true or false, if it is one of these: otherwise it stays.
    pub(crate) fn take_boolean(&mut self, name: &str) -> Option<bool> {
        let value = self.fields.get(name)?.as_bool()?;
        self.take(name).map(|_| value)
    }

    pub(crate) fn string(&mut self, name: &str) -> ApiResult<Option<String>> {
        self.read(name, "a string", |value| value.as_str().map(str::to_owned))
    }

    /// A finite number.
    pub(crate) fn number(&mut self, name: &str) -> ApiResult<Option<f64>> {
        self.read(name, "a number", |value| value.as_f64())
    }

    /// An integer of any sign, as seeds and `top_k` are.
    pub(crate) fn integer(&mut self, name: &str) -> ApiResult<Option<i64>> {
        self.read(name, "an integer", |value| value.as_i64())
    }

    /// A seed: any integer of 64 bits. A negative one asks for a random seed, as other servers have
    /// it: it is `None` of a seed that is given.
    pub(crate) fn seed(&mut self, name: &str) -> ApiResult<Option<Option<u64>>> {
        self.read(name, "an integer", |value| match value.as_i64() {
            Some(seed) => Some(u64::try_from(seed).ok()),
            None => within(value, 0, usize::MAX).map(|seed| Some(seed as u64)),
        })
    }

    /// A number of tokens of at least `least`; −1, of which there is no limit, is the largest one.
    pub(crate) fn length(&mut self, name: &str, least: usize) -> ApiResult<Option<usize>> {
        let no_limit = |value: &Value| value.as_f64() == Some(-1.0) && !self.strict;
        if self.fields.get(name).is_some_and(no_limit) {
            return Ok(self.take(name).map(|_| usize::MAX));
        }
        self.count(name, least, usize::MAX)
    }

    /// A number within bounds, both included.
    pub(crate) fn count(
        &mut self,
        name: &str,
        least: usize,
        most: usize,
    ) -> ApiResult<Option<usize>> {
        let expected = format!("a whole number from {least} to {most}");
        self.read(name, &expected, |value| within(value, least, most))
    }

    /// A list of numbers within bounds.
    pub(crate) fn counts(
        &mut self,
        name: &str,
        least: usize,
        most: usize,
    ) -> ApiResult<Option<Vec<usize>>> {
        let expected = format!("a list of whole numbers from {least} to {most}");
        self.read(name, &expected, |value| {
            let entries = value.as_array()?.iter();
            entries.map(|entry| within(entry, least, most)).collect()
        })
    }

    /// A name of a fixed set.
    pub(crate) fn one_of<T: DeserializeOwned>(&mut self, name: &str) -> ApiResult<Option<T>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let read = serde_json::from_value(value);
        read.map(Some)
            .map_err(|error| self.wrong(name, error.to_string()))
    }

    /// An object in the object.
    pub(crate) fn object(&mut self, name: &str) -> ApiResult<Option<Self>> {
        let (place, strict) = (format!("{}{name}.", self.place), self.strict);
        self.read(name, "an object", |value| match value {
            Value::Object(fields) => Some(Self::of(fields.clone(), place, strict)),
            _ => None,
        })
    }

    /// A member as it is, an object whose keys are the caller's own; nothing if it is null.
    pub(crate) fn map(&mut self, name: &str) -> ApiResult<Option<Map<String, Value>>> {
        self.read(name, "an object", |value| value.as_object().cloned())
    }

    /// What the client should know, when all fields were asked for that the server has. It names
    /// those that are left, which a strict server refuses. One that is called as a field of the
    /// server is but for capitals, `_` and `-` is always refused.
    pub(crate) fn finish(mut self) -> ApiResult<Vec<String>> {
        let (left, strict) = (std::mem::take(&mut self.fields), self.strict);
        let none = |value: &Value| is_nothing(value, strict) || !strict && value == "none";
        for (name, _) in left.iter().filter(|(_, value)| !none(value)) {
            if strict {
                return Err(self.wrong(name, "unknown field; remove it"));
            }
            if let Some(meant) = self.asked.iter().find(|asked| plain(asked) == plain(name)) {
                return Err(self.wrong(name, format!("unknown field; do you mean `{meant}`?")));
            }
            self.ignore(name);
        }
        Ok(self.warnings)
    }

    /// [Finishes](Self::finish) an object in the object.
    pub(crate) fn finish_object(&mut self, own: Self) -> ApiResult<()> {
        self.warnings.extend(own.finish()?);
        Ok(())
    }

    fn read<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> ApiResult<Option<T>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let found = read(&value);
        found.map(Some).ok_or_else(|| {
            let shown = value.to_string();
            self.wrong(
                name,
                format!("it is {}; give {expected}", shortened(&shown)),
            )
        })
    }
}

/// Whether a value is absent in other words.
fn is_nothing(value: &Value, strict: bool) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => !strict && list.is_empty(),
        Value::Object(object) => !strict && object.is_empty(),
        _ => false,
    }
}

/// A name without what is written in one way or another.
fn plain(name: &str) -> String {
    name.replace(['_', '-'], "").to_ascii_lowercase()
}

/// The beginning of a text of the client's, for a message.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

fn within(value: &Value, least: usize, most: usize) -> Option<usize> {
    // Some clients write whole numbers as 1.0.
    let whole = |number: f64| {
        (number.fract() == 0.0 && (0.0..=LARGEST as f64).contains(&number)).then_some(number as u64)
    };
    let number = value.as_u64().or_else(|| value.as_f64().and_then(whole))?;
    let number = usize::try_from(number).ok()?;
    (least..=most).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::parse(text.as_bytes(), false).unwrap()
    }

    fn message(error: ApiError) -> String {
        error.to_json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn wrong_kinds_are_named_with_what_they_are() {
        for (text, expected) in [
            (
                r#"{"a": "1"}"#,
                "`a`: it is \"1\"; give a whole number from 1 to 9",
            ),
            (r#"{"a": 0}"#, "it is 0"),
            (r#"{"a": 1.5}"#, "it is 1.5"),
            (r#"{"a": -1}"#, "it is -1"),
            (r#"{"a": 1e300}"#, "it is 1e"),
            (r#"{"a": [1]}"#, "it is [1]"),
        ] {
            let said = message(fields(text).count("a", 1, 9).unwrap_err());
            assert!(said.contains(expected), "{said}");
        }
        assert_eq!(fields(r#"{"a": 2.0}"#).count("a", 1, 9).unwrap(), Some(2));
    }
}
