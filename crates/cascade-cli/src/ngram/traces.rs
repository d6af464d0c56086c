//! Recorded outputs from several files.

use std::path::PathBuf;

use anyhow::{bail, Result};
use cascade_core::Fingerprint;
use cascade_eval::trace::{Record, Trace};
use clap::Args;

use crate::bigram::grouped;

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Recorded outputs of a target, plain or gzip, from `cascade trace`. May be given several
    /// times.
    #[arg(long, value_name = "FILE", required = true)]
    trace: Vec<PathBuf>,

    /// Maximum number of records.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl TraceArgs {
    /// The files, which no output may replace.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.trace.iter().cloned()
    }
}

/// Traces of one tokenizer.
pub(crate) struct Traces {
    traces: Vec<Trace>,
    limit: usize,
}

impl Traces {
    pub(crate) fn open(args: &TraceArgs) -> Result<Self> {
        let traces = args.trace.iter().map(Trace::open);
        let traces: Vec<Trace> = traces.collect::<Result<_, _>>()?;
        let tokenizer = |trace: &Trace| trace.header.tokenizer();
        if let Some(other) = traces
            .iter()
            .find(|of| tokenizer(of) != tokenizer(&traces[0]))
        {
            bail!(
                "{} and {} are of different tokenizers, {} and {}; give traces of one",
                traces[0].label,
                other.label,
                tokenizer(&traces[0]),
                tokenizer(other)
            );
        }
        Ok(Self {
            traces,
            limit: args.limit.unwrap_or(usize::MAX),
        })
    }

    /// The vocabulary of all token ids.
    pub(crate) fn tokenizer(&self) -> Fingerprint {
        self.traces[0].header.tokenizer()
    }

    /// The records, file by file.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        let records = self.traces.iter().flat_map(|trace| &trace.records);
        records.take(self.limit)
    }

    /// Names of the files.
    pub(crate) fn labels(&self) -> Vec<&str> {
        self.traces
            .iter()
            .map(|trace| trace.label.as_str())
            .collect()
    }

    /// What is replayed, in a line.
    pub(crate) fn describe(&self) -> String {
        let of = |trace: &Trace| {
            let header = &trace.header;
            let (provenance, model) = (header.provenance.as_str(), &header.model);
            format!("{} ({provenance} outputs of {model})", trace.label)
        };
        let traces: Vec<String> = self.traces.iter().map(of).collect();
        let tokens: usize = self.records().map(|record| record.output.len()).sum();
        format!(
            "replayed from {}: {} records, {} tokens",
            traces.join(", "),
            grouped(self.records().count() as u64),
            grouped(tokens as u64)
        )
    }
}
