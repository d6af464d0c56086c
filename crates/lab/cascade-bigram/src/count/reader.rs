//! The thread that reads.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use cascade_corpus::{Corpus, Markup, RawDocument};
use crossbeam_channel::{bounded, Receiver, Sender};
use sha2::{Digest, Sha256};

use super::{Document, Message, Report};
use crate::checkpoint::{Checkpoint, Manifest};
use crate::job::{Job, Summary};
use crate::sentences::Sentences;
use crate::{Error, ErrorKind, Result};

/// Bytes of documents that are handed over at once.
const BATCH: usize = 128 << 10;

/// Reads documents, sends them to the workers, and commits checkpoints.
pub(super) struct Reader<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) checkpoint: &'a mut Checkpoint,
    pub(super) summary: &'a mut Summary,
    pub(super) work: Sender<Message>,
    pub(super) reports: Receiver<Result<Report>>,
    pub(super) go: Vec<Sender<()>>,
    pub(super) batch: Vec<Document>,
    /// Where repeated sentences are to be left out.
    pub(super) sentences: Option<Sentences>,
    /// Of all documents up to here.
    pub(super) digest: Sha256,
    pub(super) documents: u64,
}

impl Reader<'_> {
    pub(super) fn run(mut self, mut corpus: Corpus, names: &[String]) -> Result<()> {
        self.pass_over(&mut corpus)?;
        let mut size = 0;
        let mut safe = Instant::now();
        while let Some(document) = self.next(&mut corpus)? {
            size += document.bytes();
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
        let repeated = self.sentences.as_ref().map(|of| of.repeated);
        self.summary.repeated_sentences = repeated.unwrap_or_default();
        if self.documents == 0 {
            return Err(self.no_documents(names));
        }
        self.finish()
    }

    /// The next document. Bad lines are skipped, as bad pages are.
    fn next(&mut self, corpus: &mut Corpus) -> Result<Option<Document>> {
        for document in corpus {
            match document {
                Ok(document) => {
                    self.documents += 1;
                    add_to_digest(&mut self.digest, &document);
                    return Ok(Some(self.prepared(document)));
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

    /// The document as it is counted. Repeated sentences are found here, where documents still have
    /// an order.
    fn prepared(&mut self, document: RawDocument) -> Document {
        let Some(sentences) = &mut self.sentences else {
            return Document::Whole(document);
        };
        let (input, offset) = (document.input, document.offset);
        let parts = sentences.unique(&document.into_text());
        Document::Parts {
            input,
            offset,
            parts,
        }
    }

    /// Reads the documents that were counted before, and checks that they are the same.
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
            let message = format!(
                "the first {documents} documents of the inputs are not those that {} has counted; give the same inputs, \
                 or delete the folder to start anew",
                self.checkpoint.folder().display()
            );
            return Err(Error::new(ErrorKind::Checkpoint, message));
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
        // Between flushes only failures are reported.
        if let Ok(report) = self.reports.try_recv() {
            report?;
        }
        match self.work.send(message) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.reports.recv().ok().and_then(Result::err))
                .map_err(|e| e.unwrap_or_else(Error::panicked)),
        }
    }

    /// Checkpoints everything that has been sent so far.
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

    /// Waits for the reports of all workers, and commits them to the manifest.
    fn commit(&mut self, finished: bool) -> Result<()> {
        let mut manifest = self.checkpoint.manifest.clone();
        for _ in 0..self.go.len() {
            let report = self.reports.recv().map_err(|_| Error::panicked())??;
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
                " ({} invalid lines; the first: {line})",
                self.summary.bad_lines
            ),
        };
        let inputs = names.join(", ");
        let message = format!("there is no document in {inputs}; are these the right files?{hint}");
        Error::new(ErrorKind::Input, message)
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
