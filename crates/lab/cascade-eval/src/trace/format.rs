//! A trace in memory.

use std::path::Path;

use super::{Error, Header, Reader, Record, Result};

/// A recording of a target. Every record fits the header: tokens of the vocabulary, a prompt where
/// the architecture reads it, nothing after an end token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trace {
    /// What the trace is called in messages.
    pub label: String,
    /// What was recorded, and how.
    pub header: Header,
    /// The answers, in their order. Never empty.
    pub records: Vec<Record>,
}

impl Trace {
    /// A trace of records that fit the header.
    ///
    /// # Errors
    /// [`Error::NoRecords`]; [`Error::NotATrace`] and [`Error::Line`] for what the file would be
    /// refused for.
    pub fn new(label: impl Into<String>, header: Header, records: Vec<Record>) -> Result<Self> {
        let label = label.into();
        if let Some(reason) = header.problem() {
            return Err(Error::NotATrace { label, reason });
        }
        for (index, record) in records.iter().enumerate() {
            if let Some(problem) = header.problem_of(record) {
                let line = index + 2;
                return Err(Error::Line {
                    label,
                    line,
                    problem,
                });
            }
        }
        if records.is_empty() {
            return Err(Error::NoRecords { label });
        }
        Ok(Self {
            label,
            header,
            records,
        })
    }

    /// Reads a file, plain or compressed by gzip.
    ///
    /// # Errors
    /// Those of [`Reader`]; [`Error::NoRecords`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::collect(Reader::open(path)?)
    }

    /// Reads the rest of a reader.
    ///
    /// # Errors
    /// Those of [`Reader`]; [`Error::NoRecords`].
    pub fn collect(mut reader: Reader) -> Result<Self> {
        let records = reader.by_ref().collect::<Result<Vec<_>>>()?;
        let (label, header) = (reader.label().to_owned(), reader.header().clone());
        match records.is_empty() {
            true => Err(Error::NoRecords { label }),
            false => Ok(Self {
                label,
                header,
                records,
            }),
        }
    }
}
