//! Plain text: documents with a blank line between them.

use std::io::Read;
use std::sync::Arc;

use crate::Result;
use crate::corpus::document::RawDocument;
use crate::corpus::lines::Lines;

/// A document is ended at the end of a line when it has become this long, in bytes, so that text
/// without blank lines is read in bounded memory.
const LONGEST_DOCUMENT: usize = 16 << 20;

/// Reads documents that have blank lines between them. Stops at the first error.
pub(crate) struct PlainReader<R> {
    lines: Lines<R>,
    failed: bool,
}

impl<R: Read> PlainReader<R> {
    pub(crate) fn new(source: R, file: Arc<str>) -> Self {
        Self {
            lines: Lines::new(source, file),
            failed: false,
        }
    }

    fn document(&mut self) -> Result<Option<RawDocument>> {
        let mut text = String::new();
        let mut offset = 0;
        while let Some((start, line)) = self.lines.next()? {
            let line = line.trim_end_matches(['\n', '\r']);
            if line.trim().is_empty() {
                if text.is_empty() {
                    continue;
                }
                break;
            }
            if text.is_empty() {
                offset = start;
            } else {
                text.push('\n');
            }
            text.push_str(line);
            if text.len() >= LONGEST_DOCUMENT {
                break;
            }
        }
        Ok((!text.is_empty()).then(|| RawDocument::plain(text, offset)))
    }
}

impl<R: Read> Iterator for PlainReader<R> {
    type Item = Result<RawDocument>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let document = self.document().transpose();
        self.failed = matches!(document, Some(Err(_)));
        document
    }
}
