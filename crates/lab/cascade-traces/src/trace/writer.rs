//! Writes a trace record by record.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::{Header, Reader, Record};
use crate::{Error, ErrorKind, Result, error};

/// Writes a trace. Each record is in the file as soon as [`write`](Self::write) returns, so a
/// killed process loses at most the record in progress. While a writer is open, no other writer can
/// open the file.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
}

impl Writer {
    /// Creates a new file.
    ///
    /// # Errors
    /// A file that exists; a file name that ends in `.gz`; a file that cannot be written.
    pub fn create(path: impl Into<PathBuf>, header: &Header) -> Result<Self> {
        let path = path.into();
        check_name(&path)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|source| match source.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    let problem = "the file exists already; give another name";
                    Error::located(ErrorKind::Exists, path.display(), problem)
                }
                _ => Error::io(&path, source),
            })?;
        let mut writer = Self::locked(path, file)?;
        writer.write_line(header)?;
        Ok(writer)
    }

    /// Continues a file, and returns the records that it already contains. A truncated last line,
    /// as left by a killed process, is removed. A file that does not exist, or whose header is
    /// truncated, is started anew.
    ///
    /// # Errors
    /// A file that was created with another header; the errors of a [`Reader`] except for a
    /// truncated last line; a file that another process writes to; a file name that ends in `.gz`.
    pub fn resume(path: impl Into<PathBuf>, header: &Header) -> Result<(Self, Vec<Record>)> {
        let path = path.into();
        check_name(&path)?;
        cascade_core::fs::check_file(&path).map_err(|source| Error::io(&path, source))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options
            .open(&path)
            .map_err(|source| Error::io(&path, source))?;
        let mut writer = Self::locked(path, file)?;
        let (whole, rest) = writer.content()?;
        if whole.is_empty() {
            // Nothing is discarded except a prefix of the header that will be written.
            if !line(header).is_ok_and(|line| line.starts_with(&rest)) {
                let label = writer.path.display().to_string();
                let reason = "its only line does not end in a newline";
                return Err(error::not_a_trace(&label, reason));
            }
            writer.end_at(0)?;
            writer.write_line(header)?;
            return Ok((writer, Vec::new()));
        }
        let end = whole.len() as u64;
        let mut reader = Reader::new(writer.path.display().to_string(), Cursor::new(whole))?;
        check_equal(&writer.path, reader.header(), header)?;
        let records = reader.by_ref().collect::<Result<_>>()?;
        writer.end_at(end)?;
        Ok((writer, records))
    }

    /// Begins anew in place of another trace: in one step it becomes one without records.
    ///
    /// # Errors
    /// A file that another process writes to; a file name that ends in `.gz`; a file that cannot
    /// be written.
    pub fn replace(path: impl Into<PathBuf>, header: &Header) -> Result<Self> {
        let path = path.into();
        check_name(&path)?;
        let old = File::open(&path).ok();
        // Held until the new file stands there.
        let _locked = old.map(|old| Self::locked(path.clone(), old)).transpose()?;
        let begun = line(header).and_then(|line| cascade_core::fs::write(&path, &line));
        begun.map_err(|source| Error::io(&path, source))?;
        Ok(Self::resume(path, header)?.0)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        self.write_line(record)
    }

    fn locked(path: PathBuf, file: File) -> Result<Self> {
        match file.try_lock() {
            // Some file systems do not support locks; on these nothing is locked.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { path, file }),
            Err(TryLockError::WouldBlock) => {
                let problem = "another process is writing to it; wait for it, or give another name";
                Err(Error::located(ErrorKind::Busy, path.display(), problem))
            }
        }
    }

    /// The content up to and including the last newline, and the rest.
    fn content(&mut self) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut whole = Vec::new();
        let read = self.file.read_to_end(&mut whole);
        read.map_err(|source| Error::io(&self.path, source))?;
        let last = whole.iter().rposition(|&byte| byte == b'\n');
        let rest = whole.split_off(last.map_or(0, |last| last + 1));
        Ok((whole, rest))
    }

    /// Truncates the file to `end` bytes and continues writing there.
    fn end_at(&mut self, end: u64) -> Result<()> {
        let cut = self.file.set_len(end);
        cut.and_then(|()| self.file.seek(SeekFrom::Start(end)))
            .map(|_| ())
            .map_err(|source| Error::io(&self.path, source))
    }

    fn write_line(&mut self, content: &impl Serialize) -> Result<()> {
        let written = line(content).and_then(|line| self.file.write_all(&line));
        written.map_err(|source| Error::io(&self.path, source))
    }
}

pub(super) fn line(content: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = cascade_core::fs::one_line(serde_json::to_string(content)?);
    line.push('\n');
    Ok(line.into_bytes())
}

pub(super) fn check_name(path: &Path) -> Result<()> {
    if path.extension().is_some_and(|extension| extension == "gz") {
        let problem = "traces are recorded as plain JSON Lines; use a file name ending in .jsonl, \
                       and compress the file when it is complete";
        Err(Error::located(
            ErrorKind::Compressed,
            path.display(),
            problem,
        ))
    } else {
        Ok(())
    }
}

fn check_equal(path: &Path, found: &Header, expected: &Header) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let fields = |header: &Header| match serde_json::to_value(header) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (found, expected) = (fields(found), fields(expected));
    let value = |fields: &serde_json::Map<String, Value>, key: &str| {
        fields.get(key).map_or("none".to_owned(), Value::to_string)
    };
    let mut keys = expected.keys().chain(found.keys());
    let field = keys
        .find(|key| found.get(*key) != expected.get(*key))
        .cloned()
        .unwrap_or_default();
    let problem = format!(
        "it was recorded with {field} {}, not {}: a trace has one target and one set of options; \
         use another file name, or the same options",
        value(&found, &field),
        value(&expected, &field)
    );
    Err(Error::located(
        ErrorKind::OtherRecording,
        path.display(),
        problem,
    ))
}
