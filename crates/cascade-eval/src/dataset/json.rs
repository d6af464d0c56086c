//! JSON: one object per line, or one array of objects.

use serde_json::Value;

use super::entry::{Record, type_name};
use super::{bad_entry, not_json};
use crate::Result;
use crate::error::Location;

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
            let place = Location::Line(index + 1);
            if line.len() > LONGEST_LINE {
                return Err(bad_entry(label, place, long_line(line, LONGEST_LINE)));
            }
            let value = serde_json::from_str(line).map_err(|error| {
                let cure = "every line must be one JSON object";
                not_json(label, place, format!("{}; {cure}", message(&error)))
            })?;
            record(label, place, value)
        })
}

/// The objects of an array.
pub(super) fn elements<'a>(
    label: &'a str,
    text: &'a str,
) -> Result<impl Iterator<Item = Result<Record>> + 'a> {
    if text.len() > LONGEST_ARRAY {
        let problem = long_line(text, LONGEST_ARRAY);
        return Err(bad_entry(label, Location::Line(1), problem));
    }
    let values: Vec<Value> = serde_json::from_str(text).map_err(|error| {
        let cure = "the file must be one JSON array of objects, or JSON objects line by line";
        let problem = format!("{}; {cure}", message(&error));
        not_json(label, Location::Line(error.line()), problem)
    })?;
    let elements = values.into_iter().enumerate();
    Ok(elements.map(move |(index, value)| record(label, Location::Element(index + 1), value)))
}

fn long_line(line: &str, limit: usize) -> String {
    format!(
        "a line has {} bytes, and {} MiB are read at most; is the file made of lines?",
        line.len(),
        limit >> 20
    )
}

fn record(label: &str, place: Location, value: Value) -> Result<Record> {
    match value {
        Value::Object(object) => Ok(Record { place, object }),
        other => {
            let problem = format!("expected a JSON object, found {}", type_name(&other));
            Err(bad_entry(label, place, problem))
        }
    }
}

/// The column and what the parser says, without the line, which messages name in their own way.
fn message(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&place).unwrap_or(&message);
    format!("column {}: {message}", error.column())
}
