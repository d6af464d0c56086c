//! A trace in memory.

use std::io::{BufWriter, Write};
use std::path::Path;

use cascade_core::fs::Output;

use super::writer::{check_name, line};
use super::{Header, Reader, Record};
use crate::{Error, Result, error};

/// A recording of a target. Every record is consistent with the header: its tokens are in the
/// vocabulary, its prompt is where the architecture expects it, and nothing follows an end token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trace {
    /// Name of the trace in messages.
    pub label: String,
    /// What was recorded, and how.
    pub header: Header,
    /// The records, in order. Never empty.
    pub records: Vec<Record>,
}

impl Trace {
    /// Tokens of the context in the middle of an answer, on average over the records.
    pub fn typical_context(&self) -> usize {
        let of = |record: &Record| record.context.len() + record.output.len() / 2;
        let sum: usize = self.records.iter().map(of).sum();
        sum / self.records.len().max(1)
    }

    /// A trace of records that are consistent with the header.
    ///
    /// # Errors
    /// No records; anything that makes a trace file invalid.
    pub fn new(label: impl Into<String>, header: Header, records: Vec<Record>) -> Result<Self> {
        let label = label.into();
        // The header is line 1, the first record line 2.
        let at_line = |index: usize, problem: &str| error::line(&label, index + 2, problem);
        Self::named(label.clone(), header, records, at_line)
    }

    /// A trace of records that are consistent with the header; `wrong` says what is wrong with a
    /// record, by its index.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn named(
        label: String,
        header: Header,
        records: Vec<Record>,
        wrong: impl Fn(usize, &str) -> Error,
    ) -> Result<Self> {
        if let Some(reason) = header.problem() {
            return Err(error::not_a_trace(&label, reason));
        }
        for (index, record) in records.iter().enumerate() {
            if let Some(problem) = header.problem_of(record) {
                return Err(wrong(index, &problem));
            }
        }
        if records.is_empty() {
            return Err(error::no_records(&label));
        }
        Ok(Self {
            label,
            header,
            records,
        })
    }

    /// Writes the trace to a file, whole or not at all.
    ///
    /// # Errors
    /// A file name that ends in `.gz`; a file that cannot be written.
    pub fn write(&self, output: &Output) -> Result<()> {
        check_name(output.path())?;
        let write = || {
            let file = output.begin()?;
            let mut lines = BufWriter::new(file.file());
            lines.write_all(&line(&self.header)?)?;
            for record in &self.records {
                lines.write_all(&line(record)?)?;
            }
            lines.flush()?;
            drop(lines);
            file.commit()
        };
        write().map_err(|source| Error::io(output.path(), source))
    }

    /// Reads a greedy recording, plain or gzip-compressed.
    ///
    /// # Errors
    /// As [`Reader`]; no records; a sampled recording.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let trace = Self::open_any(path)?;
        match trace.header.sampling() {
            None => Ok(trace),
            Some(sampling) => Err(error::sampled(trace.label, sampling)),
        }
    }

    /// Reads a recording that may be a sampled one.
    ///
    /// # Errors
    /// As [`Reader`]; no records.
    pub fn open_any(path: impl AsRef<Path>) -> Result<Self> {
        Self::collect(Reader::open(path)?)
    }

    /// At most so many of the records, spread evenly over the trace: recordings are in the order of
    /// their datasets, so the first ones are of one kind.
    pub fn spread(&self, limit: usize) -> impl ExactSizeIterator<Item = &Record> {
        let (all, count) = (self.records.len(), self.records.len().min(limit));
        (0..count).map(move |i| &self.records[i * all / count])
    }

    /// Reads all remaining records of a reader.
    ///
    /// # Errors
    /// As [`Reader`]; no records.
    pub fn collect(mut reader: Reader) -> Result<Self> {
        let records = reader.by_ref().collect::<Result<Vec<_>>>()?;
        let (label, header) = (reader.label().to_owned(), reader.header().clone());
        if records.is_empty() {
            Err(error::no_records(&label))
        } else {
            Ok(Self {
                label,
                header,
                records,
            })
        }
    }
}
