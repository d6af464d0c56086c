//! Lines of a text, with their places.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use crate::{Error, ErrorKind, Result};

/// The longest line that is read into memory, in bytes.
const LONGEST_LINE: u64 = 256 << 20;

/// The lines of a text in UTF-8.
pub(crate) struct Lines<R> {
    source: BufReader<R>,
    pub(crate) file: Arc<str>,
    bytes: Vec<u8>,
    /// Where the next line starts.
    pub(crate) offset: u64,
    /// Lines read so far.
    pub(crate) number: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R, file: Arc<str>) -> Self {
        let source = BufReader::with_capacity(256 << 10, source);
        Self {
            source,
            file,
            bytes: Vec::new(),
            offset: 0,
            number: 0,
        }
    }

    /// The next line, with its line end, and where it starts. A byte order mark is not part of the
    /// first line.
    ///
    /// # Errors
    /// If the file cannot be read, the line is not UTF-8, or it is longer than 256 MiB.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &str)>> {
        self.bytes.clear();
        let start = self.offset;
        let limited = (&mut self.source)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut self.bytes);
        let length = limited.map_err(|error| Error::read_at(&self.file, start, error))? as u64;
        if length == 0 {
            return Ok(None);
        }
        self.offset += length;
        self.number += 1;
        if length == LONGEST_LINE && self.bytes.last() != Some(&b'\n') {
            return Err(Error::input(format!(
                "line {} of {}, from byte {start} on, is longer than {LONGEST_LINE} bytes; break it into lines",
                self.number, self.file
            )));
        }
        match std::str::from_utf8(&self.bytes) {
            Ok(line) if start == 0 => Ok(Some((start, line.trim_start_matches('\u{feff}')))),
            Ok(line) => Ok(Some((start, line))),
            Err(error) => {
                let message = format!(
                    "{} is not valid text at byte {}; convert it to UTF-8 first (iconv -c drops what is invalid)",
                    self.file,
                    start + error.valid_up_to() as u64
                );
                Err(Error::new(ErrorKind::NotText, message))
            }
        }
    }
}
