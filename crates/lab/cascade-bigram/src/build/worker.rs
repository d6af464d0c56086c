//! A thread that counts.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, Scope};

use cascade_core::TokenId;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Message, Report};
use crate::checkpoint::RunFolder;
use crate::corpus::RawDocument;
use crate::gram_counts::GramCounts;
use crate::grams::each_key;
use crate::job::Job;
use crate::{Error, ErrorKind, Result};

/// Strips, tokenizes and counts the documents that the reader sends.
pub(super) struct Worker<'a> {
    job: &'a Job<'a>,
    inputs: &'a [&'a Path],
    runs: &'a RunFolder,
    order: usize,
    counts: GramCounts,
    done: Report,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        job: &'a Job<'a>,
        inputs: &'a [&'a Path],
        runs: &'a RunFolder,
        order: usize,
        memory: u64,
    ) -> Self {
        Self {
            job,
            inputs,
            runs,
            order,
            counts: GramCounts::new(job.vocab_size, memory),
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

    fn count(&mut self, document: RawDocument) -> Result<()> {
        let (input, offset) = (document.input, document.offset);
        let tokens = (self.job.encode)(&document.into_text()).map_err(|source| {
            let file = self.inputs[input].display();
            let message =
                format!("cannot tokenize the document at byte {offset} of {file}: {source}");
            Error::new(ErrorKind::Tokenizer, message)
        })?;
        self.check(&tokens)?;
        for &token in &tokens {
            self.counts.add_token(token);
        }
        each_key(self.order, &tokens, |key| {
            if !self.counts.add_gram(key) {
                self.spill()?;
                self.counts.add_gram(key);
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
        let counts = self.counts.take_sorted();
        if !counts.is_empty() {
            let mut writer = self.runs.new_run()?;
            counts
                .into_iter()
                .try_for_each(|count| writer.push(count))?;
            self.done.runs.push(writer.finish()?);
        }
        Ok(())
    }
}
