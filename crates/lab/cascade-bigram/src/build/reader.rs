//! The thread that reads.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};
use sha2::{Digest, Sha256};

use super::{Message, Report};
use crate::checkpoint::{Checkpoint, Manifest};
use crate::corpus::{Corpus, RawDocument};
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
    /// Where repeated sentences are to be left out.
    pub(super) sentences: Option<Sentences>,
    /// The digest of all documents up to here, and their number.
    pub(super) digest: Sha256,
    pub(super) documents: u64,
}

impl Reader<'_> {
    pub(super) fn run(mut self, mut corpus: Corpus) -> Result<()> {
        self.pass_over(&mut corpus)?;
        let (mut batch, mut size) = (Vec::new(), 0);
        let mut last = Instant::now();
        while let Some(document) = self.next(&mut corpus)? {
            size += document.text.len();
            self.prepare(document, &mut batch);
            let due = last.elapsed() >= self.job.checkpoint;
            if size >= BATCH || due {
                self.send(std::mem::take(&mut batch))?;
                size = 0;
            }
            if due {
                self.flush()?;
                last = Instant::now();
            }
        }
        self.send(batch)?;
        let repeated = self.sentences.as_ref().map(|of| of.repeated);
        self.summary.repeated_sentences = repeated.unwrap_or_default();
        if self.documents == 0 {
            return Err(self.no_documents());
        }
        self.finish()
    }

    /// The next document. Bad lines are skipped, as bad pages are.
    fn next(&mut self, corpus: &mut Corpus) -> Result<Option<RawDocument>> {
        for document in corpus {
            match document {
                Ok(document) => {
                    self.documents += 1;
                    self.digest.update([u8::from(document.site.is_some())]);
                    self.digest
                        .update((document.text.len() as u64).to_le_bytes());
                    self.digest.update(document.text.as_bytes());
                    return Ok(Some(document));
                }
                Err(error) if error.kind() == ErrorKind::Line => {
                    self.summary.bad_lines += 1;
                    self.summary.bad_line.get_or_insert(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Adds a document to a batch as it is counted: whole, or what is left of it around sentences
    /// that were read before. Those are found here, where documents still have an order.
    fn prepare(&mut self, document: RawDocument, batch: &mut Vec<RawDocument>) {
        let Some(sentences) = &mut self.sentences else {
            return batch.push(document);
        };
        let (input, offset) = (document.input, document.offset);
        let parts = sentences.unique(&document.into_text());
        batch.extend(parts.into_iter().map(|text| RawDocument {
            text,
            input,
            offset,
            site: None,
        }));
    }

    /// Reads the documents that were counted before, and checks that they are the same.
    fn pass_over(&mut self, corpus: &mut Corpus) -> Result<()> {
        let Manifest {
            documents,
            tokens,
            digest,
            ..
        } = self.checkpoint.manifest.clone();
        let mut counted = Vec::new();
        while self.documents < documents {
            let Some(document) = self.next(corpus)? else {
                break;
            };
            if self.sentences.is_some() {
                self.prepare(document, &mut counted);
                counted.clear();
            }
        }
        if documents > 0 && self.hex_digest() != digest {
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

    fn send(&mut self, batch: Vec<RawDocument>) -> Result<()> {
        // Between flushes only failures are reported.
        if let Ok(report) = self.reports.try_recv() {
            report?;
        }
        match self.work.send(Message::Documents(batch)) {
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

    fn no_documents(&self) -> Error {
        let hint = match &self.summary.bad_line {
            None => String::new(),
            Some(line) => format!(
                " ({} invalid lines; the first: {line})",
                self.summary.bad_lines
            ),
        };
        let inputs = super::inputs(self.job);
        let names: Vec<String> = inputs.iter().map(|of| of.display().to_string()).collect();
        let inputs = names.join(", ");
        let message = format!("there is no document in {inputs}; are these the right files?{hint}");
        Error::new(ErrorKind::Input, message)
    }
}
