//! JSON: one object per line, or one array of objects.

use serde_json::Value;

use super::bad_entry;
use super::entry::{type_name, Object, Record};
use crate::{EntryError, Place, Result};

/// The longest line that is parsed. Values take up to sixteen times their text.
const LONGEST_LINE: usize = 64 << 20;

/// The longest array that is parsed, all of which is in memory.
const LONGEST_ARRAY: usize = 512 << 20;

/// The objects of the lines that are not blank.
pub(super) fn lines<'a>(
    label: &'a str,
    text: &'a str,
) -> impl Iterator<Item = Result<Record>> + 'a {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(move |(index, line)| {
            let place = Place::Line(index + 1);
            if line.len() > LONGEST_LINE {
                let (bytes, limit) = (line.len(), LONGEST_LINE);
                return Err(bad_entry(
                    label,
                    place,
                    EntryError::LongLine { bytes, limit },
                ));
            }
            let value = serde_json::from_str(line).map_err(|error| EntryError::Json {
                column: error.column(),
                message: message(&error),
            });
            record(label, place, value.and_then(object))
        })
}

/// The objects of an array.
pub(super) fn elements<'a>(
    label: &'a str,
    text: &'a str,
) -> Result<impl Iterator<Item = Result<Record>> + 'a> {
    if text.len() > LONGEST_ARRAY {
        let error = EntryError::LongLine {
            bytes: text.len(),
            limit: LONGEST_ARRAY,
        };
        return Err(bad_entry(label, Place::Line(1), error));
    }
    let values: Vec<Value> = serde_json::from_str(text).map_err(|error| {
        let (place, column) = (Place::Line(error.line()), error.column());
        let message = message(&error);
        bad_entry(label, place, EntryError::JsonArray { column, message })
    })?;
    let elements = values.into_iter().enumerate();
    Ok(elements.map(move |(index, value)| record(label, Place::Element(index + 1), object(value))))
}

fn record(
    label: &str,
    place: Place,
    object: std::result::Result<Object, EntryError>,
) -> Result<Record> {
    match object {
        Ok(object) => Ok(Record { place, object }),
        Err(error) => Err(bad_entry(label, place, error)),
    }
}

fn object(value: Value) -> std::result::Result<Object, EntryError> {
    match value {
        Value::Object(object) => Ok(object),
        other => Err(EntryError::NotAnObject {
            found: type_name(&other),
        }),
    }
}

/// What the parser says, without the place, which messages name in their own way.
fn message(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    message.strip_suffix(&place).unwrap_or(&message).to_owned()
}
