//! MMLU's CSV files: no header, six columns, the subject in the file's name.

use csv::{ReaderBuilder, StringRecord};
use serde_json::json;

use super::bad_entry;
use super::entry::{self, Object, Record};
use super::file::newlines;
use crate::Result;
use crate::error::Location;

/// The rows, with the field names of the hub's export.
pub(super) fn records<'a>(
    label: &'a str,
    text: &'a str,
) -> impl Iterator<Item = Result<Record>> + 'a {
    let subject = subject(label);
    let mut lines = Lines {
        text,
        at: 0,
        line: 1,
    };
    ReaderBuilder::new()
        .has_headers(false)
        // Rows of another length are reported by us, in terms of the columns that there should be.
        .flexible(true)
        .from_reader(text.as_bytes())
        .into_records()
        .map(move |row| {
            let row = row.map_err(|error| {
                let place = Location::Line(lines.of_row(error.position()));
                bad_entry(label, place, error)
            })?;
            let place = Location::Line(lines.of_row(row.position()));
            match object(&row, subject) {
                Ok(object) => Ok(Record { place, object }),
                Err(error) => Err(bad_entry(label, place, error)),
            }
        })
}

/// `anatomy` of `…/anatomy_test.csv`.
fn subject(label: &str) -> Option<&str> {
    let name = label.rsplit(['/', '\\']).next()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let stem = name.strip_suffix(".csv")?;
    let splits = ["_test", "_dev", "_val", "_train"];
    let subject = splits
        .into_iter()
        .find_map(|split| stem.strip_suffix(split));
    Some(subject.unwrap_or(stem))
}

fn object(row: &StringRecord, subject: Option<&str>) -> entry::Result<Object> {
    let columns: Vec<&str> = row.iter().collect();
    let [question, a, b, c, d, answer] = columns[..] else {
        return Err(format!(
            "expected 6 columns (question, A, B, C, D, answer), found {}; a field with a comma or a line break must be \
             quoted",
            columns.len()
        ));
    };
    let mut object = Object::new();
    object.insert("question".to_owned(), question.into());
    if let Some(subject) = subject {
        object.insert("subject".to_owned(), subject.into());
    }
    object.insert("choices".to_owned(), json!([a, b, c, d]));
    object.insert("answer".to_owned(), answer.trim().into());
    Ok(object)
}

/// Counts lines up to rows, which come in their order.
struct Lines<'a> {
    text: &'a str,
    /// Where the count stands, in bytes, and the line there.
    at: usize,
    line: usize,
}

impl Lines<'_> {
    /// Line on which the row that was looked for from `position` on begins.
    ///
    /// The reader's own count points at the blank lines before the row, if there are any.
    fn of_row(&mut self, position: Option<&csv::Position>) -> usize {
        let offset = position.map_or(0, csv::Position::byte);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.text.as_bytes();
        let rest = bytes.get(offset..).unwrap_or_default();
        let blank = rest.iter().take_while(|byte| b"\r\n".contains(byte));
        let begin = offset
            .saturating_add(blank.count())
            .clamp(self.at, bytes.len());
        self.line += newlines(&bytes[self.at..begin]);
        self.at = begin;
        self.line
    }
}
