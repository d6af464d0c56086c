//! One entry of a file, whatever the file's format, and how datasets read its fields.

use serde_json::{Map, Value};

use crate::error::Location;
use crate::{Content, Sample};

pub(super) type Object = Map<String, Value>;

/// The error says what is wrong with the entry, and where it can, the cure.
pub(super) type Result<T> = std::result::Result<T, String>;

/// An entry and where it stands.
pub(super) struct Record {
    pub(super) place: Location,
    pub(super) object: Object,
}

/// An entry of which some fields have been used.
///
/// Wherever several names are given, the field is the first of them that the entry has with a value
/// other than null.
pub(super) struct Entry {
    object: Object,
    used: Vec<String>,
}

impl Entry {
    pub(super) fn new(object: Object) -> Self {
        Self {
            object,
            used: Vec::new(),
        }
    }

    /// A string that must be there. Uses it.
    pub(super) fn text(&mut self, names: &[&str]) -> Result<String> {
        let (name, value) = self.required(names)?;
        match value {
            Value::String(text) => Ok(text),
            other => Err(wrong_type(&name, "a string", &other)),
        }
    }

    /// A string, if it is there. Uses it.
    pub(super) fn optional_text(&mut self, name: &str) -> Result<Option<String>> {
        if self.has(name) {
            self.text(&[name]).map(Some)
        } else {
            Ok(None)
        }
    }

    /// A list of strings that must be there. Uses it.
    pub(super) fn texts(&mut self, names: &[&str]) -> Result<Vec<String>> {
        const EXPECTED: &str = "a list of strings";
        let (name, value) = self.required(names)?;
        match value {
            Value::Array(values) => strings(values, &name, EXPECTED),
            other => Err(wrong_type(&name, EXPECTED, &other)),
        }
    }

    /// A string or a list of strings that must be there. Uses it.
    pub(super) fn text_or_texts(&mut self, names: &[&str]) -> Result<Vec<String>> {
        const EXPECTED: &str = "a string or a list of strings";
        let (name, value) = self.required(names)?;
        match value {
            Value::String(text) => Ok(vec![text]),
            Value::Array(values) => strings(values, &name, EXPECTED),
            other => Err(wrong_type(&name, EXPECTED, &other)),
        }
    }

    /// Whatever must be there, and its name. Uses it.
    pub(super) fn required(&mut self, names: &[&str]) -> Result<(String, Value)> {
        let there = |name: &&&str| self.object.contains_key(**name);
        let name = names.iter().find(|name| self.has(name));
        let Some(name) = name.or_else(|| names.iter().find(there)) else {
            return Err(self.lacks(names));
        };
        let name = (*name).to_owned();
        // Taken out of its place, which stays: messages name all fields that the entry has.
        let value = self.object.get_mut(&name).map(Value::take);
        self.used.push(name.clone());
        Ok((name, value.unwrap_or_default()))
    }

    /// What to say where none of these fields is there.
    fn lacks(&self, names: &[&str]) -> String {
        let quoted: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
        let there: Vec<_> = self.object.keys().map(String::as_str).collect();
        let found = if there.is_empty() {
            "the entry is empty".to_owned()
        } else {
            format!("the entry has {}", there.join(", "))
        };
        format!(
            "there is no field {}; {found}; name the dataset that the file is of, or one of its fields as prompts:FIELD",
            quoted.join(" or ")
        )
    }

    /// References by turn, if the field is there: a string, or a list with a string or a list of
    /// strings for each turn. Uses it.
    pub(super) fn references(&mut self, name: &str) -> Result<Vec<Vec<String>>> {
        const EXPECTED: &str = "a string or a list of strings or of lists of strings";
        if !self.has(name) {
            return Ok(Vec::new());
        }
        let turn = |value| match value {
            Value::String(text) => Ok(vec![text]),
            Value::Array(values) => strings(values, name, EXPECTED),
            other => Err(wrong_type(name, EXPECTED, &other)),
        };
        match self.required(&[name])?.1 {
            Value::Array(turns) => turns.into_iter().map(turn).collect(),
            only => turn(only).map(|answers| vec![answers]),
        }
    }

    /// The string or number that identifies the entry, which stays among the other fields;
    /// `position` if there is none.
    pub(super) fn id(&self, names: &[&str], position: usize) -> String {
        let named = names.iter().find_map(|name| match self.object.get(*name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        named.unwrap_or_else(|| position.to_string())
    }

    /// A sample of what was read and all fields that were not used.
    pub(super) fn sample(
        self,
        id: String,
        category: Option<String>,
        content: Content,
        references: Vec<Vec<String>>,
    ) -> Sample {
        let Self { object, used } = self;
        let unused = |(name, _): &(String, Value)| !used.contains(name);
        Sample {
            id,
            category,
            content,
            references,
            fields: object.into_iter().filter(unused).collect(),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.object.get(name).is_some_and(|value| !value.is_null())
    }
}

fn strings(values: Vec<Value>, name: &str, expected: &str) -> Result<Vec<String>> {
    let string = |value| match value {
        Value::String(text) => Ok(text),
        other => Err(must_be(name, expected, &in_a_list(&other))),
    };
    values.into_iter().map(string).collect()
}

pub(super) fn wrong_type(field: &str, expected: &str, found: &Value) -> String {
    must_be(field, expected, type_name(found))
}

fn must_be(field: &str, expected: &str, found: &str) -> String {
    format!("the field {field:?} must be {expected}, found {found}")
}

/// What is wrong with a conversation in which nothing is said.
pub(super) fn no_turns(field: &str) -> String {
    format!("the field {field:?} is an empty list; a conversation needs one turn at least")
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn in_a_list(value: &Value) -> String {
    let name = match value {
        Value::Array(_) => "a list",
        value => type_name(value),
    };
    format!("{name} in a list")
}
