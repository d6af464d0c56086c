//! Recorded outputs from several files.

use std::path::Path;

use cascade_core::Fingerprint;

use super::{Record, Trace};
use crate::{Result, error};

/// Traces of one tokenizer, one at least.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    traces: Vec<Trace>,
    limit: usize,
}

impl Traces {
    /// Opens files, of which at most `limit` records are read.
    ///
    /// # Errors
    /// As [`Trace::open`]; no file, or files of different tokenizers.
    pub fn open(files: &[impl AsRef<Path>], limit: usize) -> Result<Self> {
        let traces: Vec<Trace> = files.iter().map(Trace::open).collect::<Result<_>>()?;
        let tokenizer = |trace: &Trace| trace.header.tokenizer();
        let Some(first) = traces.first() else {
            return Err(error::no_records("no file"));
        };
        let vocabulary = tokenizer(first);
        if let Some(other) = traces.iter().find(|of| tokenizer(of) != vocabulary) {
            return Err(error::unusable(
                format_args!("{} and {}", first.label, other.label),
                format_args!(
                    "they are of different tokenizers, {vocabulary} and {}; give traces of one",
                    tokenizer(other)
                ),
            ));
        }
        Ok(Self { traces, limit })
    }

    /// The vocabulary of all token ids.
    pub fn tokenizer(&self) -> Fingerprint {
        self.traces[0].header.tokenizer()
    }

    /// The records, file by file.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let records = self.traces.iter().flat_map(|trace| &trace.records);
        records.take(self.limit)
    }

    /// The traces, of which [`records`](Self::records) may leave some out.
    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }
}
