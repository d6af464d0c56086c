//! The fields of a request, each of which is read, known to be harmless, or refused by name.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{ApiError, ApiResult};
use crate::unique::UniqueObject;

/// The largest integer that every JSON reader keeps.
const LARGEST: u64 = 1 << 53;

/// An object of a request whose fields are taken one by one. A field that is null counts as absent.
#[derive(Debug)]
pub(crate) struct Fields {
    fields: Map<String, Value>,
    /// Where the object is, with a dot behind it.
    place: String,
}

impl Fields {
    /// The fields of a request's body.
    pub(crate) fn parse(body: &[u8]) -> ApiResult<Self> {
        let fields = serde_json::from_slice::<UniqueObject>(body).map_err(|error| {
            ApiError::invalid(format!(
                "the body is not a JSON object as it should be: {error}"
            ))
        })?;
        Ok(Self {
            fields: fields.0,
            place: String::new(),
        })
    }

    /// An error of a field.
    pub(crate) fn wrong(&self, name: &str, problem: impl Into<String>) -> ApiError {
        ApiError::field(format!("{}{name}", self.place), problem)
    }

    /// A field as it is; nothing if it is null.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields
            .shift_remove(name)
            .filter(|value| !value.is_null())
    }

    /// A field that must be there.
    pub(crate) fn required(&mut self, name: &str) -> ApiResult<Value> {
        self.take(name)
            .ok_or_else(|| self.wrong(name, "it is missing; give it"))
    }

    pub(crate) fn boolean(&mut self, name: &str) -> ApiResult<Option<bool>> {
        self.read(name, "true or false", |value| value.as_bool())
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
            None => value.as_u64().map(Some),
        })
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
        let place = format!("{}{name}.", self.place);
        self.read(name, "an object", |value| match value {
            Value::Object(fields) => Some(Self {
                fields: fields.clone(),
                place: place.clone(),
            }),
            _ => None,
        })
    }

    /// A member as it is, an object whose keys are the caller's own; nothing if it is null.
    pub(crate) fn map(&mut self, name: &str) -> ApiResult<Option<Map<String, Value>>> {
        self.read(name, "an object", |value| value.as_object().cloned())
    }

    /// Refuses what is left: fields that are not known here.
    pub(crate) fn finish(self) -> ApiResult<()> {
        // Null is the same as absent, of fields that are not known either.
        let mut left = self.fields.iter().filter(|(_, value)| !value.is_null());
        match left.next() {
            None => Ok(()),
            Some((name, _)) => Err(self.wrong(name, "unknown field; remove it")),
        }
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
            let shown: String = value.to_string().chars().take(80).collect();
            self.wrong(name, format!("it is {shown}; give {expected}"))
        })
    }
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
        Fields::parse(text.as_bytes()).unwrap()
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
