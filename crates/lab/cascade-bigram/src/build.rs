//! From text to a table: one reader, several workers, and how they synchronise for a checkpoint.
//!
//! The reader sends batches of documents through one channel to all workers. When a checkpoint is
//! due it sends as many requests to flush as there are workers; a worker that takes one writes its
//! counts to a run, reports its runs, and waits until all have done so. Then the runs are those of
//! all documents read so far, and of no others.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use cascade_core::TokenId;
use cascade_ngram::{NgramLimits, NgramRows, NgramTable, Provenance};
use crossbeam_channel::{bounded, unbounded};
use sha2::{Digest, Sha256};

use crate::checkpoint::Checkpoint;
use crate::corpus::{Corpus, Options, RawDocument};
use crate::grams::Gram;
use crate::job::{Job, Summary};
use crate::output;
use crate::run::Run;
use crate::sentences::{self, Sentences};
use crate::source::describe;
use crate::{Error, ErrorKind, Result};

use self::reader::Reader;
use self::worker::Worker;

mod reader;
mod worker;

/// Counts the inputs, and writes the table of what follows contexts of 1 to `order` tokens, within
/// `limits`. The table is on the disk when this returns, and not before.
///
/// # Errors
/// Limits and vocabularies that tables cannot have, inputs that cannot be read or tokenized,
/// outputs that cannot be written, too little memory, an unfinished count that is not to be resumed
/// or is of something else. What was checkpointed before can be [resumed](Job::resume).
pub fn build(job: &Job<'_>, order: usize, limits: NgramLimits) -> Result<(NgramTable, Summary)> {
    // Refuses before anything is counted.
    let rows = NgramRows::new(order, job.vocab_size, limits)?;
    let (checkpoint, summary) = count(job, order)?;
    let mut sums = Sums {
        rows,
        summary,
        pair: None,
    };
    for count in checkpoint.counts()? {
        let (key, count) = count?;
        sums.add(Gram::of(key), count)?;
    }
    sums.close_pair()?;
    let Sums { rows, summary, .. } = sums;
    let provenance = Provenance {
        tokenizer: job.fingerprint.clone(),
        sources: inputs(job).into_iter().map(describe).collect(),
        command: job.command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let table = rows.finish(summary.documents, provenance)?;
    output::write(checkpoint.folder(), job.output, table.as_bytes())?;
    checkpoint.remove();
    Ok((table, summary))
}

/// Sorted sums on their way to a table. Where triples are counted, a pair occurs as often as it is
/// continued and as it ends a document.
struct Sums {
    rows: NgramRows,
    summary: Summary,
    /// The pair that is being read, and how often it occurs so far.
    pair: Option<([TokenId; 2], u64)>,
}

impl Sums {
    /// Adds a sum, which must come after the one before.
    fn add(&mut self, gram: Gram, count: u64) -> Result<()> {
        match gram {
            Gram::Token(token) => {
                self.summary.tokens = self.summary.tokens.saturating_add(count);
                self.rows.add_token(token, count)?;
            }
            Gram::Pair(first, second) => self.add_pair([first, second], count)?,
            Gram::Triple(context, third) => {
                self.summary.trigrams = self.summary.trigrams.saturating_add(count);
                self.summary.distinct_trigrams += 1;
                self.rows.add_triple(context, third, count)?;
                self.add_pair(context, count)?;
            }
        }
        Ok(())
    }

    fn add_pair(&mut self, pair: [TokenId; 2], count: u64) -> Result<()> {
        match &mut self.pair {
            Some((open, sum)) if *open == pair => *sum = sum.saturating_add(count),
            _ => {
                self.close_pair()?;
                self.pair = Some((pair, count));
            }
        }
        Ok(())
    }

    fn close_pair(&mut self) -> Result<()> {
        if let Some(([token, successor], count)) = self.pair.take() {
            self.summary.bigrams = self.summary.bigrams.saturating_add(count);
            self.summary.distinct += 1;
            self.rows.add_pair(token, successor, count)?;
        }
        Ok(())
    }
}

/// The inputs in the order in which they are read.
fn inputs<'a>(job: &Job<'a>) -> Vec<&'a Path> {
    let mut inputs: Vec<&Path> = job.inputs.iter().map(|path| path.as_path()).collect();
    inputs.sort();
    inputs
}

/// Counts everything, and leaves few enough runs to be merged at once.
fn count(job: &Job<'_>, order: usize) -> Result<(Checkpoint, Summary)> {
    output::check(job.output.path())?;
    let shared = if job.unique_sentences {
        sentences::MEMORY
    } else {
        0
    };
    let memory = job.memory.of_thread(job.threads, shared)?;
    let identity = format!("{} ({})", job.command, job.fingerprint);
    let mut checkpoint = Checkpoint::open(job.output.path(), &identity, job.resume)?;
    let mut summary = Summary::default();
    if !checkpoint.manifest.finished {
        let counted = read_and_count(job, order, memory, &mut checkpoint, &mut summary);
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
    order: usize,
    memory: u64,
    checkpoint: &mut Checkpoint,
    summary: &mut Summary,
) -> Result<()> {
    let inputs = inputs(job);
    let corpus = open(job, &inputs)?;
    job.status.set_reading(corpus.progress());
    let runs = checkpoint.runs();
    let threads = job.threads.get();
    let (work_to, work) = bounded(2 * threads);
    let (report_to, reports) = unbounded();
    thread::scope(|scope| {
        let mut go = Vec::new();
        for _ in 0..threads {
            let worker = Worker::new(job, &inputs, &runs, order, memory);
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
            sentences: job.unique_sentences.then(Sentences::new),
            digest: Sha256::new(),
            documents: 0,
        };
        reader.run(corpus)
    })
}

fn open(job: &Job<'_>, inputs: &[&Path]) -> Result<Corpus> {
    let options = Options {
        limit_pages: job.limit_pages,
        threads: job.threads,
    };
    Corpus::open(inputs.iter().copied(), options)
}

enum Message {
    Documents(Vec<RawDocument>),
    Flush,
}

/// What a worker has done since its last report.
#[derive(Default)]
struct Report {
    runs: Vec<Run>,
    tokens: u64,
}
