//! JSON in whose objects no key is given twice: readers differ in which of the two they take.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value whose keys are all different, at every depth.
pub(crate) struct Unique(pub(crate) Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

/// An object that is such a value.
pub(crate) struct UniqueObject(pub(crate) Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_map(Reader)? {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(D::Error::custom("it is no object")),
        }
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(Unique(entry)) = list.next_element()? {
            entries.push(entry);
        }
        Ok(Value::Array(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!("`{key}` is given twice")));
            }
            let Unique(value) = map.next_value()?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_and_keys_once_at_every_depth() {
        let read = |text: &str| serde_json::from_str::<UniqueObject>(text).map(|read| read.0);
        let text = r#"{"a": [1, -2, 1.5, 18446744073709551615, true, null, "é\n", {}, []], "b": {"a": {"a": 0}}}"#;
        let expected: Map<String, Value> = serde_json::from_str(text).unwrap();
        assert_eq!(read(text).unwrap(), expected);
        for twice in [
            r#"{"k": 1, "k": 1}"#,
            r#"{"a": {"k": 1, "\u006b": 2}}"#,
            r#"{"a": [1, {"b": [{"c": null, "k": 1, "k": 1}]}]}"#,
        ] {
            let message = read(twice).unwrap_err().to_string();
            assert!(message.starts_with("`k` is given twice"), "{message}");
        }
        let message = read("[1]").unwrap_err().to_string();
        assert!(message.contains("expected an object"), "{message}");
    }
}
