//! A thread that counts.

use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, Scope};

use cascade_core::TokenId;
use crossbeam_channel::{bounded, Receiver, Sender};

use super::{Document, Message, Report};
use crate::checkpoint::RunFolder;
use crate::grams::Grams;
use crate::job::Job;
use crate::pair_counts::PairCounts;
use crate::{Error, ErrorKind, Result};

/// Strips, tokenizes and counts the documents that the reader sends.
pub(super) struct Worker<'a> {
    job: &'a Job<'a>,
    names: &'a [String],
    runs: &'a RunFolder,
    grams: Grams,
    counts: PairCounts,
    done: Report,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        job: &'a Job<'a>,
        names: &'a [String],
        runs: &'a RunFolder,
        grams: Grams,
        memory: u64,
    ) -> Self {
        Self {
            job,
            names,
            runs,
            grams,
            counts: PairCounts::new(grams, job.vocab_size, memory),
            done: Report::default(),
        }
    }

    /// Works on a thread of its own. What is returned lets it go on where it waits.
    pub(super) fn start(
        self,
        scope: &'a Scope<'a, '_>,
        work: Receiver<Message>,
        report_to: Sender<Result<Report>>,
    ) -> io::Result<Sender<()>> {
        let (go_to, wait) = bounded(1);
        let run = move || self.run(&work, &report_to, &wait);
        thread::Builder::new().spawn_scoped(scope, run)?;
        Ok(go_to)
    }

    /// Works until the input ends or something fails, and reports either.
    fn run(
        mut self,
        work: &Receiver<Message>,
        report_to: &Sender<Result<Report>>,
        wait: &Receiver<()>,
    ) {
        let result = catch_unwind(AssertUnwindSafe(|| self.work(work, report_to, wait)));
        if let Err(error) = result.unwrap_or_else(|_| Err(Error::panicked())) {
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

    fn count(&mut self, document: Document) -> Result<()> {
        let place = document.place();
        match document {
            Document::Whole(document) => self.count_text(place, &document.into_text()),
            Document::Parts { parts, .. } => parts
                .iter()
                .try_for_each(|part| self.count_text(place, part)),
        }
    }

    fn count_text(&mut self, (input, offset): (usize, u64), text: &str) -> Result<()> {
        let tokens = (self.job.encode)(text).map_err(|source| {
            let file = self.names.get(input).map_or("", String::as_str);
            let message =
                format!("cannot tokenize the document at byte {offset} of {file}: {source}");
            Error::new(ErrorKind::Tokenizer, message)
        })?;
        self.check(&tokens)?;
        for &token in &tokens {
            self.counts.add_token(token);
        }
        self.grams.of_document(&tokens, |key| {
            if !self.counts.add_pair(key) {
                self.spill()?;
                self.counts.add_pair(key);
            }
            Ok(())
        })?;
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
            Some(&token) => {
                let message = format!(
                    "the tokenizer gave the id {token}, and its vocabulary ends at {vocab_size}; is the tokenizer file \
                     complete?"
                );
                Err(Error::new(ErrorKind::Tokenizer, message))
            }
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
