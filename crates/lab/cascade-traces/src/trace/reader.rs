//! Reads a trace record by record.

use std::io::{BufRead, BufReader};
use std::path::Path;

use cascade_core::fs::{Compressed, Inflated, MIB, UTF8_MARK, read_line};
use flate2::read::MultiGzDecoder;
use serde_json::Value;

use super::header::{FORMAT, VERSION};
use super::{Header, Record};
use crate::{Error, ErrorKind, Result, error};

/// The longest first line that is read. It describes the recording, in less than a thousand bytes.
pub const LONGEST_HEADER: u64 = MIB;

/// The longest record that is read: a prompt and an answer of 100,000 tokens with their margins
/// take 3 MB.
pub const LONGEST_RECORD: u64 = 64 * MIB;

/// Reads the records of a trace in order, each checked against the header. The iterator ends after
/// an error.
pub struct Reader {
    lines: Lines,
    header: Header,
    failed: bool,
}

impl Reader {
    /// Opens a file, plain or gzip-compressed, and reads its header.
    ///
    /// # Errors
    /// A file that cannot be read; a line of more than [`LONGEST_RECORD`] bytes, and a file that
    /// decompresses to more than [`MAX_INFLATION`](cascade_core::fs::MAX_INFLATION) times its
    /// size, while records are read; a header that is none, or of another version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |source| Error::io(path, source);
        let mut file = BufReader::new(cascade_core::fs::open(path).map_err(failed)?);
        let compressed = file.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
        let label = path.display().to_string();
        if compressed {
            Self::new(label, BufReader::new(inflated(file)))
        } else {
            Self::new(label, file)
        }
    }

    /// Reads the header of a trace. Messages refer to it as `label`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(label: impl Into<String>, input: impl BufRead + Send + 'static) -> Result<Self> {
        let mut lines = Lines {
            label: label.into(),
            input: Box::new(input),
            number: 0,
        };
        let first = lines.next(LONGEST_HEADER)?;
        let header = match first {
            None => return Err(error::not_a_trace(&lines.label, "it is empty")),
            Some(line) => {
                let text = line.text.as_slice();
                header(&lines.label, text.strip_prefix(UTF8_MARK).unwrap_or(text))?
            }
        };
        Ok(Self {
            lines,
            header,
            failed: false,
        })
    }

    /// Name of the trace in messages.
    pub fn label(&self) -> &str {
        &self.lines.label
    }

    /// What was recorded, and how.
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn read(&mut self) -> Result<Option<Record>> {
        let Some(line) = self.lines.next(LONGEST_RECORD)? else {
            return Ok(None);
        };
        let (label, number) = (&self.lines.label, self.lines.number);
        let problem = match serde_json::from_slice::<Record>(&line.text) {
            Ok(record) => match self.header.problem_of(&record) {
                None => return Ok(Some(record)),
                Some(problem) => problem,
            },
            Err(_) if !line.ended => {
                let problem = "the last line is cut off, as by a killed recording; resume the \
                               recording, or delete the line";
                return Err(error::line(label, number, problem));
            }
            Err(error) => {
                format!("not a record: {error}; the file is damaged: record or copy it again")
            }
        };
        Err(error::line(label, number, problem))
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let read = self.read();
        self.failed = read.is_err();
        read.transpose()
    }
}

/// What a compressed file holds.
fn inflated(file: impl BufRead) -> Inflated<impl std::io::Read> {
    let compressed = Compressed::default();
    let decoder = MultiGzDecoder::new(compressed.count(file));
    Inflated::new(decoder, compressed)
}

/// Parses the first line as the header.
pub(super) fn header(label: &str, line: &[u8]) -> Result<Header> {
    let not = |reason: String| error::not_a_trace(label, reason);
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| not(format!("the first line is not JSON ({error})")))?;
    if value["format"] != FORMAT {
        return Err(not(format!("\"format\" is {}", value["format"])));
    }
    match value["version"].as_u64() {
        Some(VERSION) => {}
        Some(found) => {
            let problem = format!(
                "format version {found} is not supported, only {VERSION}; use a newer version of \
                 cascade"
            );
            return Err(Error::located(ErrorKind::Trace, label, problem));
        }
        None => return Err(not(format!("\"version\" is {}", value["version"]))),
    }
    let header: Header = serde_json::from_value(value).map_err(|error| not(error.to_string()))?;
    match header.problem() {
        None => Ok(header),
        Some(problem) => Err(not(problem)),
    }
}

/// A line of a file, and whether it ends in a newline.
pub(super) struct Line {
    pub(super) text: Vec<u8>,
    pub(super) ended: bool,
}

/// The lines of a file as bytes.
pub(super) struct Lines {
    label: String,
    input: Box<dyn BufRead + Send>,
    /// Number of the last line read, from 1.
    number: usize,
}

impl Lines {
    fn next(&mut self, limit: u64) -> Result<Option<Line>> {
        let mut text = Vec::new();
        let read = read_line(&mut self.input, limit, &mut text).map_err(|source| {
            let line = format!("{}:{}", self.label, self.number + 1);
            Error::io(Path::new(&line), source)
        })?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let ended = text.last() == Some(&b'\n');
        Ok(Some(Line { text, ended }))
    }
}
