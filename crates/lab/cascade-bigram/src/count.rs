//! From text to counts: one reader, several workers, and how they synchronise for a checkpoint.
//!
//! The reader sends batches of documents through one channel to all workers. When a checkpoint is
//! due it sends as many requests to flush as there are workers; a worker that takes one writes its
//! counts to a run, reports its runs, and waits until all have done so. Then the runs are those of
//! all documents read so far, and of no others.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use cascade_corpus::{Corpus, Input, Options, RawDocument};
use cascade_ngram::{
    BigramRows, BigramTable, NgramLimits, NgramRows, NgramTable, Provenance, Source,
};
use crossbeam_channel::{bounded, unbounded};
use sha2::{Digest, Sha256};

use crate::checkpoint::Checkpoint;
use crate::gram_rows::GramRows;
use crate::grams::{Gram, Grams};
use crate::job::{Job, Summary};
use crate::output;
use crate::part::{PartInfo, PartWriter};
use crate::run::Run;
use crate::sentences::{self, Sentences};
use crate::source::describe;
use crate::{Error, ErrorKind, Result};

use self::reader::Reader;
use self::worker::Worker;

mod reader;
mod worker;

/// Counts the inputs, and writes the table of the `top_k` most frequent successors of each token,
/// of those that follow it at least `min_count` times. The table is on the disk when this returns,
/// and not before.
///
/// # Errors
/// Inputs that cannot be read or tokenized, outputs that cannot be written, too little memory, an
/// unfinished count that is not to be resumed or is of something else. What was checkpointed before
/// can be [resumed](Job::resume).
pub fn build(job: &Job<'_>, top_k: usize, min_count: u64) -> Result<(BigramTable, Summary)> {
    let (checkpoint, mut summary) = count_to_runs(job, Grams::Pairs)?;
    let mut rows = BigramRows::new(job.vocab_size, top_k, min_count);
    for count in checkpoint.counts()? {
        let (key, count) = count?;
        summary.add(Grams::Pairs.gram(key), count);
        add_row(&mut rows, key, count)?;
    }
    let table = rows.finish(summary.documents, provenance(job))?;
    output::write(checkpoint.folder(), job.output, table.as_bytes())?;
    checkpoint.remove();
    Ok((table, summary))
}

/// Counts the inputs, and writes the table of what follows contexts of 1 to `order` tokens, within
/// `limits`. The table is on the disk when this returns, and not before.
///
/// # Errors
/// As [`build`]; also limits and vocabularies that such tables cannot have.
pub fn build_ngrams(
    job: &Job<'_>,
    order: usize,
    limits: NgramLimits,
) -> Result<(NgramTable, Summary)> {
    // Refuses before anything is counted.
    let mut rows = GramRows::new(NgramRows::new(order, job.vocab_size, limits)?);
    let grams = Grams::of_order(order);
    let (checkpoint, mut summary) = count_to_runs(job, grams)?;
    for count in checkpoint.counts()? {
        let (key, count) = count?;
        rows.add(grams.gram(key), count, &mut summary)?;
    }
    let rows = rows.finish(&mut summary)?;
    let table = rows.finish(summary.documents, provenance(job))?;
    output::write(checkpoint.folder(), job.output, table.as_bytes())?;
    checkpoint.remove();
    Ok((table, summary))
}

/// Counts the inputs, and writes all counts to a Parquet file, which [`reduce`](crate::reduce())
/// and SQL can add up with others. Its columns are `left`, `right` and `count`; where `right` is
/// null, `count` is how often the token `left` occurs.
///
/// # Errors
/// As [`build`].
pub fn count(job: &Job<'_>) -> Result<Summary> {
    let (checkpoint, mut summary) = count_to_runs(job, Grams::Pairs)?;
    let info = PartInfo::new(
        job.fingerprint,
        job.vocab_size,
        summary.documents,
        sources(job),
        job.command.to_owned(),
    );
    let mut writer = PartWriter::create(checkpoint.folder(), job.output, Some(&info))?;
    for count in checkpoint.counts()? {
        let (key, count) = count?;
        summary.add(Grams::Pairs.gram(key), count);
        writer.push((key, count))?;
    }
    writer.finish()?;
    checkpoint.remove();
    Ok(summary)
}

/// Adds a sum to the table under construction.
pub(crate) fn add_row(rows: &mut BigramRows, key: u64, count: u64) -> Result<()> {
    match Grams::Pairs.gram(key) {
        Gram::Token(token) => rows.add_token(token, count)?,
        Gram::Pair(token, successor) | Gram::Triple([_, token], successor) => {
            rows.add_pair(token, successor, count)?;
        }
    }
    Ok(())
}

impl Summary {
    /// Adds a sum.
    pub(crate) fn add(&mut self, gram: Gram, count: u64) {
        let (total, distinct) = match gram {
            Gram::Token(_) => (&mut self.tokens, None),
            Gram::Pair(..) => (&mut self.bigrams, Some(&mut self.distinct)),
            Gram::Triple(..) => (&mut self.trigrams, Some(&mut self.distinct_trigrams)),
        };
        *total = total.saturating_add(count);
        if let Some(distinct) = distinct {
            *distinct += 1;
        }
    }
}

fn provenance(job: &Job<'_>) -> Provenance {
    Provenance {
        tokenizer: job.fingerprint.clone(),
        sources: sources(job),
        command: job.command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn sources(job: &Job<'_>) -> Vec<Source> {
    let mut sources: Vec<Source> = job.inputs.iter().map(|path| describe(path)).collect();
    sources.sort();
    sources
}

/// Counts everything, and leaves few enough runs to be merged at once.
fn count_to_runs(job: &Job<'_>, grams: Grams) -> Result<(Checkpoint, Summary)> {
    output::check(job.output.path())?;
    let shared = if job.unique_sentences {
        sentences::MEMORY
    } else {
        0
    };
    let memory = job.memory.of_thread(job.threads, shared)?;
    let identity = format!("{} ({})", job.command, job.fingerprint);
    let mut checkpoint = Checkpoint::open(job.output.path(), grams, &identity, job.resume)?;
    let mut summary = Summary::default();
    if !checkpoint.manifest.finished {
        let counted = read_and_count(job, grams, memory, &mut checkpoint, &mut summary);
        if let Err(error) = counted {
            checkpoint.remove_if_useless();
            return Err(error);
        }
    }
    summary.documents = checkpoint.manifest.documents;
    job.status.tokens.store(checkpoint.manifest.tokens, Relaxed);
    job.status.set_merging();
    checkpoint.merge_to_few()?;
    Ok((checkpoint, summary))
}

fn no_thread(threads: usize, source: &std::io::Error) -> Error {
    let message = format!(
        "cannot start {threads} threads that count: {source}; give fewer (--threads 1), or raise the limit of memory or \
         of processes (`ulimit -v`, `ulimit -u`)"
    );
    Error::new(ErrorKind::Resources, message)
}

/// Counts what is not counted yet.
fn read_and_count(
    job: &Job<'_>,
    grams: Grams,
    memory: u64,
    checkpoint: &mut Checkpoint,
    summary: &mut Summary,
) -> Result<()> {
    let (corpus, names) = open(job)?;
    job.status.set_reading(corpus.progress());
    let runs = checkpoint.runs();
    let threads = job.threads.get();
    let (work_to, work) = bounded(2 * threads);
    let (report_to, reports) = unbounded();
    thread::scope(|scope| {
        let mut go = Vec::new();
        for _ in 0..threads {
            let worker = Worker::new(job, &names, &runs, grams, memory);
            // If it fails, the others end, because this end of their channel does.
            let started = worker.start(scope, work.clone(), report_to.clone());
            go.push(started.map_err(|source| no_thread(threads, &source))?);
        }
        // The channels close when the last worker ends.
        drop((work, report_to));
        let reader = Reader {
            job,
            checkpoint,
            summary,
            work: work_to,
            reports,
            go,
            batch: Vec::new(),
            sentences: job.unique_sentences.then(Sentences::new),
            digest: Sha256::new(),
            documents: 0,
        };
        reader.run(corpus, &names)
    })
}

/// The texts, and what their files are called.
fn open(job: &Job<'_>) -> Result<(Corpus, Vec<String>)> {
    let mut paths: Vec<&PathBuf> = job.inputs.iter().collect();
    paths.sort();
    let options = Options {
        limit_pages: job.limit_pages,
        threads: job.threads,
    };
    let corpus = Corpus::open(paths.iter().map(|path| Input::new(path.as_path())), options)?;
    let names = paths.iter().map(|path| path.display().to_string());
    Ok((corpus, names.collect()))
}

/// A document as it is counted.
enum Document {
    /// As it was read.
    Whole(RawDocument),
    /// The text of what is left of it.
    Parts {
        input: usize,
        offset: u64,
        parts: Vec<String>,
    },
}

impl Document {
    /// Its input, and where it starts there.
    fn place(&self) -> (usize, u64) {
        match self {
            Self::Whole(document) => (document.input, document.offset),
            &Self::Parts { input, offset, .. } => (input, offset),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Whole(document) => document.text.len(),
            Self::Parts { parts, .. } => parts.iter().map(String::len).sum(),
        }
    }
}

enum Message {
    Documents(Vec<Document>),
    Flush,
}

/// What a worker has done since its last report.
#[derive(Default)]
struct Report {
    runs: Vec<Run>,
    tokens: u64,
}
