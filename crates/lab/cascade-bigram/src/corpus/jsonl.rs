//! JSONL: an object with a string `text` on every line.

use std::io::Read;
use std::sync::Arc;

use serde::Deserialize;

use crate::corpus::document::RawDocument;
use crate::corpus::lines::Lines;
use crate::{Error, ErrorKind, Result};

/// The fields that are read of a line; others are ignored.
#[derive(Deserialize)]
struct Record {
    text: String,
}

/// Reads one document from each line. A bad line is an error, after which reading continues.
pub(crate) struct JsonlReader<R> {
    lines: Lines<R>,
    failed: bool,
}

impl<R: Read> JsonlReader<R> {
    pub(crate) fn new(source: R, file: Arc<str>) -> Self {
        Self {
            lines: Lines::new(source, file),
            failed: false,
        }
    }

    fn record(&mut self) -> Result<Option<RawDocument>> {
        loop {
            let line = self.lines.number + 1;
            let Some((offset, text)) = self.lines.next()? else {
                return Ok(None);
            };
            if text.trim().is_empty() {
                continue;
            }
            return match serde_json::from_str::<Record>(text) {
                Ok(Record { text }) => Ok(Some(RawDocument::plain(text, offset))),
                Err(error) => {
                    let message = format!(
                        "line {line} of {}, at byte {offset}, is not a JSON object with a string \"text\": {error}; \
                         mend or remove the line",
                        self.lines.file
                    );
                    Err(Error::new(ErrorKind::Line, message))
                }
            };
        }
    }
}

impl<R: Read> Iterator for JsonlReader<R> {
    type Item = Result<RawDocument>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let document = self.record().transpose();
        // Lines are independent, so reading continues after a bad one, but not after an I/O error.
        let bad_line =
            |error: &Error| [ErrorKind::Line, ErrorKind::NotText].contains(&error.kind());
        self.failed = matches!(&document, Some(Err(error)) if !bad_line(error));
        document
    }
}
