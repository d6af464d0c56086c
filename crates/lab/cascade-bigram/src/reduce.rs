//! From partial counts to a table.

use std::path::{Path, PathBuf};

use cascade_core::fs::Output;
use cascade_core::Fingerprint;
use cascade_ngram::{BigramRows, BigramTable, Provenance, Source};

use crate::count::add_row;
use crate::grams::Grams;
use crate::job::Summary;
use crate::merge::{Counts, Merge};
use crate::part::{PartInfo, PartReader};
use crate::run::{Run, RunReader, RunWriter};
use crate::{output, Error, ErrorKind, Result};

/// At most this many Parquet files are read at once: each takes some pages of three columns.
const FAN_IN: usize = 16;

/// Partial counts that are to be added up.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'a> {
    /// Files of counts, as [`count`](crate::count()) writes them, or sums of such that SQL has
    /// written. In any order.
    pub parts: &'a [PathBuf],
    /// For sums that SQL has written: the files that were summed, which say what the counts are of.
    /// Otherwise empty.
    pub summed: &'a [PathBuf],
    /// The table that is to be written.
    pub output: &'a Output,
    /// Successors that are kept for each token.
    pub top_k: usize,
    /// Pairs that are rarer are dropped.
    pub min_count: u64,
    /// The command to record in the table.
    pub command: &'a str,
}

/// Adds up partial counts, and writes the table. Only the table and some rows of each file are held
/// in memory.
///
/// # Errors
/// Files that cannot be read, are not counts, not sorted, given twice, or of different tokenizers;
/// a table that cannot be written.
pub fn reduce(reduction: &Reduction<'_>) -> Result<(BigramTable, Summary)> {
    output::check(reduction.output.path())?;
    let mut paths = reduction.parts.to_vec();
    paths.sort();
    check_twice(&paths)?;
    let origin = origin(&paths, reduction.summed)?;
    let scratch = scratch(reduction.output.path())?;
    let mut summary = Summary {
        documents: origin.documents,
        ..Summary::default()
    };
    let mut rows = BigramRows::new(origin.vocab_size, reduction.top_k, reduction.min_count);
    for count in merge(&paths, scratch.path())? {
        let (key, count) = count?;
        summary.add(Grams::Pairs.gram(key), count);
        add_row(&mut rows, key, count)?;
    }
    let provenance = Provenance {
        tokenizer: origin.tokenizer,
        sources: origin.sources,
        command: reduction.command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let table = rows.finish(summary.documents, provenance)?;
    let written = reduction.output.write(table.as_bytes());
    written.map_err(Error::write(reduction.output.path()))?;
    Ok((table, summary))
}

/// What all parts together were counted from.
struct Origin {
    tokenizer: Fingerprint,
    vocab_size: usize,
    documents: u64,
    sources: Vec<Source>,
}

fn origin(parts: &[PathBuf], summed: &[PathBuf]) -> Result<Origin> {
    let mut origin: Option<(Origin, String)> = None;
    for path in if summed.is_empty() { parts } else { summed } {
        let part = PartReader::open(path)?;
        let Some(info) = part.info() else {
            let reason = "it does not say what it counts, because SQL has made it; name the parts that were summed \
                          after --summed";
            return Err(Error::part(part.file(), reason));
        };
        match &mut origin {
            None => origin = Some((Origin::of(info), part.file().to_owned())),
            Some((origin, first)) => origin.add(info, part.file(), first)?,
        }
    }
    let none = || Error::part("nothing", "give at least one");
    origin.map(|(origin, _)| origin).ok_or_else(none)
}

impl Origin {
    fn of(info: &PartInfo) -> Self {
        Self {
            tokenizer: info.tokenizer(),
            vocab_size: info.vocab_size(),
            documents: info.documents(),
            sources: info.sources().to_vec(),
        }
    }

    fn add(&mut self, info: &PartInfo, file: &str, first: &str) -> Result<()> {
        if (info.tokenizer(), info.vocab_size()) != (self.tokenizer.clone(), self.vocab_size) {
            let message = format!(
                "{file} was counted with another tokenizer than {first}: {} and {}; count both with the same one",
                info.tokenizer(),
                self.tokenizer
            );
            return Err(Error::new(ErrorKind::Input, message));
        }
        self.documents = self.documents.saturating_add(info.documents());
        self.sources.extend_from_slice(info.sources());
        Ok(())
    }
}

/// A file given twice would be counted twice.
fn check_twice(sorted: &[PathBuf]) -> Result<()> {
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let reason = "it is given twice, and would be counted twice";
            Err(Error::part(&pair[0].display().to_string(), reason))
        }
    }
}

/// A folder for runs beside the output, removed on drop.
fn scratch(output: &Path) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix(".cascade-bigram-")
        .tempdir_in(cascade_core::fs::parent(output))
        .map_err(Error::write(output))
}

/// The sums of all files. What cannot be open at once is merged into runs first.
fn merge(paths: &[PathBuf], scratch: &Path) -> Result<Merge> {
    let open = |path: &PathBuf| -> Result<Counts> { Ok(Box::new(PartReader::open(path)?)) };
    if paths.len() <= FAN_IN {
        return Merge::new(Grams::Pairs, paths.iter().map(open).collect::<Result<_>>()?);
    }
    let mut runs = Vec::new();
    for group in paths.chunks(FAN_IN) {
        let lists = group.iter().map(open).collect::<Result<_>>()?;
        runs.push(write_run(
            Merge::new(Grams::Pairs, lists)?,
            scratch,
            runs.len(),
        )?);
    }
    let mut written = runs.len();
    while runs.len() > crate::merge::FAN_IN {
        let group: Vec<Run> = runs.drain(..crate::merge::FAN_IN).collect();
        runs.push(write_run(merge_runs(&group, scratch)?, scratch, written)?);
        written += 1;
    }
    merge_runs(&runs, scratch)
}

fn write_run(counts: Merge, scratch: &Path, number: usize) -> Result<Run> {
    let mut writer = RunWriter::create(scratch, format!("run-{number:06}"))?;
    for count in counts {
        writer.push(count?)?;
    }
    writer.finish()
}

fn merge_runs(runs: &[Run], scratch: &Path) -> Result<Merge> {
    let open = |run| -> Result<Counts> { Ok(Box::new(RunReader::open(scratch, run)?)) };
    Merge::new(Grams::Pairs, runs.iter().map(open).collect::<Result<_>>()?)
}
