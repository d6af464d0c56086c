//! MMLU: multiple-choice questions, one CSV file per subject.

use csv::{ReaderBuilder, StringRecord};

use super::{bad_line, line_at};
use crate::{Letter, LineError, Result, Sample};

/// The questions with their choices.
pub(super) fn samples<'a>(
    label: &'a str,
    text: &'a str,
) -> impl Iterator<Item = Result<Sample>> + 'a {
    ReaderBuilder::new()
        .has_headers(false)
        // Rows of another length are reported by us, in terms of the columns that there should be.
        .flexible(true)
        .from_reader(text.as_bytes())
        .into_records()
        .map(move |record| {
            let record = record.map_err(|error| csv_error(label, text, &error))?;
            let offset = record.position().map_or(0, csv::Position::byte);
            sample(&record).map_err(|error| bad_line(label, record_line(text, offset), error))
        })
}

fn sample(record: &StringRecord) -> std::result::Result<Sample, LineError> {
    let columns: Vec<&str> = record.iter().collect();
    let [question, a, b, c, d, answer] = columns[..] else {
        return Err(LineError::Columns {
            found: columns.len(),
        });
    };
    let answer = Letter::from_name(answer.trim()).ok_or_else(|| LineError::Answer {
        found: answer.to_owned(),
    })?;
    Ok(Sample::MultipleChoice {
        question: question.to_owned(),
        choices: [a, b, c, d].map(str::to_owned),
        answer: Some(answer),
    })
}

/// Line on which the record that was looked for from byte `offset` on begins.
///
/// The reader's own count points at the blank lines before the record, if there are any.
fn record_line(text: &str, offset: u64) -> usize {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = text.as_bytes().get(offset..).unwrap_or_default();
    let blank = rest.iter().take_while(|byte| b"\r\n".contains(byte));
    line_at(text.as_bytes(), offset.saturating_add(blank.count()))
}

fn csv_error(label: &str, text: &str, error: &csv::Error) -> crate::Error {
    let offset = error.position().map_or(0, csv::Position::byte);
    let message = error.to_string();
    bad_line(label, record_line(text, offset), LineError::Csv { message })
}
