//! Recorded outputs from several files.

use std::path::PathBuf;

use anyhow::Result;
use cascade_traces::trace::{Trace, Traces};
use clap::Args;

use crate::terminal::grouped;

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// Recorded outputs of a target, plain or gzip, from `cascade-lab trace`. May be given several
    /// times.
    #[arg(long, value_name = "FILE", required = true)]
    trace: Vec<PathBuf>,

    /// Maximum number of records [default: all].
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl TraceArgs {
    /// The records of all files.
    pub(super) fn open(&self) -> Result<Traces> {
        Ok(Traces::open(&self.trace, self.limit.unwrap_or(usize::MAX))?)
    }

    /// The files, which no output may replace.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.trace.iter().cloned()
    }
}

/// What is replayed, in a line.
pub(super) fn describe(traces: &Traces) -> String {
    let of = |trace: &Trace| {
        let header = &trace.header;
        let (provenance, model) = (header.provenance.as_str(), &header.model);
        format!("{} ({provenance} outputs of {model})", trace.label)
    };
    let named: Vec<String> = traces.traces().iter().map(of).collect();
    let tokens: usize = traces.records().map(|record| record.output.len()).sum();
    format!(
        "replayed from {}: {} records, {} tokens",
        named.join(", "),
        grouped(traces.records().count() as u64),
        grouped(tokens as u64)
    )
}
