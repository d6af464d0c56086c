//! From text to counts: a reader, workers, and how they come to a common state.
//!
//! The reader sends batches of documents through one channel to all workers. When a checkpoint is due it sends as many
//! requests to flush as there are workers; a worker that takes one writes its counts to a run, reports its runs, and waits
//! until all have done so. Then the runs are those of all documents read so far, and of no others.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use cascade_core::TokenId;
use cascade_corpus::{Corpus, Input, Markup, Options, RawDocument};
use cascade_ngram::{BigramRows, BigramTable, Provenance, Source};
use crossbeam_channel::{bounded, unbounded, Receiver, Sender};
use sha2::{Digest, Sha256};

use crate::checkpoint::{Checkpoint, Manifest, RunFolder};
use crate::job::{Job, Summary};
use crate::output;
use crate::pairs::{key, parts, PairCounts, ALONE};
use crate::part::{PartInfo, PartWriter};
use crate::run::Run;
use crate::source::describe;
use crate::{Error, Result};

/// Bytes of documents that are handed over at once.
const BATCH: usize = 128 << 10;

/// Counts the inputs, and writes the table of the `top_k` most frequent successors of each token, of those that follow it
/// at least `min_count` times. The table is on the disk when this returns, and not before.
///
/// # Errors
/// Inputs that cannot be read or tokenized, outputs that cannot be written, too little memory, an unfinished count that is
/// not to be resumed or is of something else. What was made safe before stays so and can be [resumed](Job::resume).
pub fn build(job: &Job<'_>, top_k: usize, min_count: u64) -> Result<(BigramTable, Summary)> {
    let (checkpoint, mut summary) = count_to_runs(job)?;
    let mut rows = BigramRows::new(job.vocab_size, top_k, min_count);
    for count in checkpoint.counts()? {
        let (key, count) = count?;
        summary.add(key, count);
        add_row(&mut rows, key, count)?;
    }
    let provenance = Provenance {
        tokenizer: job.fingerprint.clone(),
        sources: sources(job),
        command: job.command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let table = rows.finish(summary.documents, provenance)?;
    output::replace(checkpoint.temporary(), job.output, table.as_bytes())?;
    checkpoint.remove();
    Ok((table, summary))
}

/// Counts the inputs, and writes all counts to a Parquet file, which [`reduce`](crate::reduce()) and SQL can add up with
/// others. Its columns are `left`, `right` and `count`; where `right` is null, `count` is how often the token `left` occurs.
///
/// # Errors
/// As [`build`].
pub fn count(job: &Job<'_>) -> Result<Summary> {
    let (checkpoint, mut summary) = count_to_runs(job)?;
    let info = PartInfo::new(
        job.fingerprint,
        job.vocab_size,
        summary.documents,
        sources(job),
        job.command.to_owned(),
    );
    let mut writer = PartWriter::create(checkpoint.temporary(), job.output, &info)?;
    for count in checkpoint.counts()? {
        let (key, count) = count?;
        summary.add(key, count);
        writer.push((key, count))?;
    }
    writer.finish()?;
    checkpoint.remove();
    Ok(summary)
}

/// Adds a sum to a table in the making.
pub(crate) fn add_row(rows: &mut BigramRows, key: u64, count: u64) -> Result<()> {
    match parts(key) {
        (token, ALONE) => rows.add_token(token, count)?,
        (token, successor) => rows.add_pair(token, successor, count)?,
    }
    Ok(())
}

impl Summary {
    /// Adds a sum.
    pub(crate) fn add(&mut self, key: u64, count: u64) {
        if parts(key).1 == ALONE {
            self.tokens = self.tokens.saturating_add(count);
        } else {
            self.bigrams = self.bigrams.saturating_add(count);
            self.distinct += 1;
        }
    }
}

fn sources(job: &Job<'_>) -> Vec<Source> {
    let mut sources: Vec<Source> = job.inputs.iter().map(|path| describe(path)).collect();
    sources.sort();
    sources
}

/// Counts everything, and leaves few enough runs to be merged at once.
fn count_to_runs(job: &Job<'_>) -> Result<(Checkpoint, Summary)> {
    output::check(job.output)?;
    let memory = job.memory.of_thread(job.threads)?;
    let identity = format!("{} ({})", job.command, job.fingerprint);
    let mut checkpoint = Checkpoint::open(job.output, &identity, job.resume)?;
    let mut summary = Summary::default();
    if !checkpoint.manifest.finished {
        let counted = read_and_count(job, memory, &mut checkpoint, &mut summary);
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

/// Counts what is not counted yet.
fn read_and_count(
    job: &Job<'_>,
    memory: u64,
    checkpoint: &mut Checkpoint,
    summary: &mut Summary,
) -> Result<()> {
    let mut paths: Vec<&PathBuf> = job.inputs.iter().collect();
    paths.sort();
    let options = Options {
        limit_pages: job.limit_pages,
        threads: job.threads,
    };
    let corpus = Corpus::open(paths.iter().map(|path| Input::new(path.as_path())), options)?;
    job.status.set_reading(corpus.progress());
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let runs = checkpoint.runs();
    let threads = job.threads.get();
    let (work_to, work) = bounded(2 * threads);
    let (report_to, reports) = unbounded();
    thread::scope(|scope| {
        let mut go = Vec::new();
        for _ in 0..threads {
            let (go_to, wait) = bounded(1);
            go.push(go_to);
            let worker = Worker {
                job,
                names: &names,
                runs: &runs,
                counts: PairCounts::new(job.vocab_size, memory),
                done: Report::default(),
            };
            let (work, report_to) = (work.clone(), report_to.clone());
            scope.spawn(move || worker.run(&work, &report_to, &wait));
        }
        // Without workers nobody listens, and none waits.
        drop((work, report_to));
        let reader = Reader {
            job,
            checkpoint,
            summary,
            work: work_to,
            reports,
            go,
            batch: Vec::new(),
            digest: Sha256::new(),
            documents: 0,
        };
        reader.run(corpus, &names)
    })
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

struct Worker<'a> {
    job: &'a Job<'a>,
    names: &'a [String],
    runs: &'a RunFolder,
    counts: PairCounts,
    done: Report,
}

impl Worker<'_> {
    /// Works until there is nothing more, or something fails; whichever it is, it is reported.
    fn run(
        mut self,
        work: &Receiver<Message>,
        report_to: &Sender<Result<Report>>,
        wait: &Receiver<()>,
    ) {
        let result = catch_unwind(AssertUnwindSafe(|| self.work(work, report_to, wait)));
        if let Some(error) = result.unwrap_or(Err(Error::Panicked)).err() {
            // The reader may have failed before.
            let _ = report_to.send(Err(error));
        }
    }

    fn work(
        &mut self,
        work: &Receiver<Message>,
        report_to: &Sender<Result<Report>>,
        wait: &Receiver<()>,
    ) -> Result<()> {
        for message in work {
            match message {
                Message::Documents(batch) => {
                    for document in batch {
                        self.count(document)?;
                    }
                }
                Message::Flush => {
                    self.report(report_to)?;
                    if wait.recv().is_err() {
                        return Ok(());
                    }
                }
            }
        }
        self.report(report_to)
    }

    fn report(&mut self, report_to: &Sender<Result<Report>>) -> Result<()> {
        self.spill()?;
        let _ = report_to.send(Ok(std::mem::take(&mut self.done)));
        Ok(())
    }

    fn count(&mut self, document: RawDocument) -> Result<()> {
        let (input, offset) = (document.input, document.offset);
        let tokens = (self.job.encode)(&document.into_text()).map_err(|source| Error::Encode {
            file: self.names.get(input).cloned().unwrap_or_default(),
            offset,
            source,
        })?;
        self.check(&tokens)?;
        for &token in &tokens {
            self.counts.add_token(token);
        }
        for pair in tokens.windows(2) {
            let pair = key(pair[0], pair[1]);
            if !self.counts.add_pair(pair) {
                self.spill()?;
                self.counts.add_pair(pair);
            }
        }
        self.done.tokens += tokens.len() as u64;
        self.job
            .status
            .tokens
            .fetch_add(tokens.len() as u64, Relaxed);
        Ok(())
    }

    fn check(&self, tokens: &[TokenId]) -> Result<()> {
        let vocab_size = self.job.vocab_size;
        match tokens.iter().find(|token| **token as usize >= vocab_size) {
            None => Ok(()),
            Some(&token) => Err(Error::OutOfVocabulary { token, vocab_size }),
        }
    }

    /// Writes the counts to a run.
    fn spill(&mut self) -> Result<()> {
        let Self {
            counts, runs, done, ..
        } = self;
        counts.take_sorted(|sorted| {
            if sorted.is_empty() {
                return Ok(());
            }
            let mut writer = runs.new_run()?;
            for count in sorted {
                writer.push(*count)?;
            }
            done.runs.push(writer.finish()?);
            Ok(())
        })
    }
}

struct Reader<'a> {
    job: &'a Job<'a>,
    checkpoint: &'a mut Checkpoint,
    summary: &'a mut Summary,
    work: Sender<Message>,
    reports: Receiver<Result<Report>>,
    go: Vec<Sender<()>>,
    batch: Vec<RawDocument>,
    /// Of all documents up to here.
    digest: Sha256,
    documents: u64,
}

impl Reader<'_> {
    fn run(mut self, mut corpus: Corpus, names: &[String]) -> Result<()> {
        self.pass_over(&mut corpus)?;
        let mut size = 0;
        let mut safe = Instant::now();
        while let Some(document) = self.next(&mut corpus)? {
            size += document.text.len();
            self.batch.push(document);
            let due = safe.elapsed() >= self.job.checkpoint;
            if size >= BATCH || due {
                self.send_batch()?;
                size = 0;
            }
            if due {
                self.flush()?;
                safe = Instant::now();
            }
        }
        self.send_batch()?;
        if self.documents == 0 {
            return Err(self.no_documents(names));
        }
        self.finish()
    }

    /// The next document. A line that is none is passed over, as bad pages are.
    fn next(&mut self, corpus: &mut Corpus) -> Result<Option<RawDocument>> {
        for document in corpus {
            match document {
                Ok(document) => {
                    self.documents += 1;
                    add_to_digest(&mut self.digest, &document);
                    return Ok(Some(document));
                }
                Err(error @ cascade_corpus::Error::Json { .. }) => {
                    self.summary.bad_lines += 1;
                    self.summary.bad_line.get_or_insert(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Reads the documents that have been counted before, and makes sure that they are the same.
    fn pass_over(&mut self, corpus: &mut Corpus) -> Result<()> {
        let Manifest {
            documents,
            tokens,
            ref digest,
            ..
        } = self.checkpoint.manifest;
        let digest = digest.clone();
        while self.documents < documents && self.next(corpus)?.is_some() {}
        if documents > 0 && (self.documents < documents || self.hex_digest() != digest) {
            return Err(Error::ChangedInputs {
                folder: self.checkpoint.folder().to_owned(),
                documents,
            });
        }
        self.job.status.resumed.store(tokens, Relaxed);
        self.job.status.tokens.store(tokens, Relaxed);
        Ok(())
    }

    fn hex_digest(&self) -> String {
        let bytes = self.digest.clone().finalize();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn send_batch(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        self.send(Message::Documents(batch))
    }

    fn send(&mut self, message: Message) -> Result<()> {
        // Between flushes nothing is reported but failures.
        if let Ok(report) = self.reports.try_recv() {
            report?;
        }
        match self.work.send(message) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.reports.recv().ok().and_then(Result::err))
                .map_err(|e| e.unwrap_or(Error::Panicked)),
        }
    }

    /// Makes everything safe that has been sent so far.
    fn flush(&mut self) -> Result<()> {
        for _ in 0..self.go.len() {
            // Not by `send`: the first reports come while the last requests go.
            if self.work.send(Message::Flush).is_err() {
                break;
            }
        }
        self.commit(false)?;
        for go in &self.go {
            let _ = go.send(());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.work = bounded(0).0;
        self.commit(true)
    }

    /// Waits for the reports of all workers, and puts them on the record.
    fn commit(&mut self, finished: bool) -> Result<()> {
        let mut manifest = self.checkpoint.manifest.clone();
        for _ in 0..self.go.len() {
            let report = self.reports.recv().unwrap_or(Err(Error::Panicked))?;
            manifest.runs.extend(report.runs);
            manifest.tokens += report.tokens;
        }
        manifest.documents = self.documents;
        manifest.digest = self.hex_digest();
        manifest.finished = finished;
        self.checkpoint.commit(manifest)
    }

    fn no_documents(&self, names: &[String]) -> Error {
        let hint = match &self.summary.bad_line {
            None => String::new(),
            Some(line) => format!(
                " ({} lines are no documents; the first: {line})",
                self.summary.bad_lines
            ),
        };
        Error::NoDocuments {
            inputs: names.join(", "),
            hint,
        }
    }
}

fn add_to_digest(digest: &mut Sha256, document: &RawDocument) {
    let markup = match document.markup {
        Markup::Wikitext => [1],
        Markup::Plain => [0],
    };
    digest.update(markup);
    digest.update((document.text.len() as u64).to_le_bytes());
    digest.update(document.text.as_bytes());
}
