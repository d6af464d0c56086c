//! One JSON object per line.

use serde_json::{Map, Value};

use super::bad_line;
use crate::{LineError, Result, Sample};

/// An object of a line.
pub(super) type Object = Map<String, Value>;

/// The samples that `sample` makes of the objects, line by line.
pub(super) fn samples<'a>(
    label: &'a str,
    text: &'a str,
    sample: impl Fn(Object) -> std::result::Result<Sample, LineError> + 'a,
) -> impl Iterator<Item = Result<Sample>> + 'a {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(move |(index, line)| {
            object(line)
                .and_then(&sample)
                .map_err(|error| bad_line(label, index + 1, error))
        })
}

/// The string in a field that must be there.
pub(super) fn string(
    object: &Object,
    field: &'static str,
) -> std::result::Result<String, LineError> {
    match object.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(LineError::NotAString {
            field,
            found: type_name(other),
        }),
        None => Err(LineError::MissingField {
            field,
            found: object.keys().cloned().collect(),
        }),
    }
}

fn object(line: &str) -> std::result::Result<Object, LineError> {
    match serde_json::from_str(line) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(LineError::NotAnObject {
            found: type_name(&other),
        }),
        Err(error) => Err(json_error(&error)),
    }
}

fn json_error(error: &serde_json::Error) -> LineError {
    // serde_json counts lines of its own, all of which are line 1 here.
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    LineError::Json {
        column: error.column(),
        message: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
