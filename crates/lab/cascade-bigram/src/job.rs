//! Counting jobs, their progress and their results.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cascade_core::fs::Output;
use cascade_core::{Fingerprint, TokenId};

use crate::corpus::Progress;
use crate::{BoxError, Memory};

/// From text to tokens, without special tokens around them.
pub type Encode<'a> = dyn Fn(&str) -> Result<Vec<TokenId>, BoxError> + Sync + 'a;

/// What is to be counted, and how.
///
/// The counts depend on inputs, tokenizer, `unique_sentences` and `limit_pages` alone.
pub struct Job<'a> {
    /// The inputs, in any order: they are read in the order of their paths. `-` is standard input.
    pub inputs: &'a [PathBuf],
    /// The file to write. Runs and checkpoints are in a folder beside it.
    pub output: &'a Output,
    /// The tokenizer.
    pub encode: &'a Encode<'a>,
    /// The vocabulary of the tokenizer.
    pub fingerprint: &'a Fingerprint,
    /// One more than the highest id of the vocabulary.
    pub vocab_size: usize,
    /// Whether sentences are left out that were read before. What is left of a document around them
    /// is counted as several documents.
    ///
    /// The sentences of all documents are remembered until there are millions, then the latest
    /// ones, in 128 MiB.
    pub unique_sentences: bool,
    /// Documents after which to stop, over all inputs.
    pub limit_pages: Option<u64>,
    /// The limit on memory.
    pub memory: Memory,
    /// Threads that strip, tokenize and count; one more reads, and with bzip2 as many again
    /// decompress.
    pub threads: NonZeroUsize,
    /// Checkpoint interval.
    pub checkpoint: Duration,
    /// Whether to resume an unfinished count, if there is one.
    pub resume: bool,
    /// The command to record in the output, without options that do not affect the content. An
    /// unfinished count is resumed only by the same command.
    pub command: &'a str,
    /// Where progress is reported.
    pub status: &'a Status,
}

/// Progress of a count, for display.
#[derive(Debug, Default)]
pub struct Status {
    reading: OnceLock<Arc<Progress>>,
    pub(crate) tokens: AtomicU64,
    pub(crate) resumed: AtomicU64,
    merging: AtomicBool,
}

impl Status {
    /// The counters of the reader; `None` before it has begun, or if there is nothing left to read.
    pub fn reading(&self) -> Option<&Arc<Progress>> {
        self.reading.get()
    }

    /// Tokens that have been counted, those of a resumed count included.
    pub fn tokens(&self) -> u64 {
        self.tokens.load(Relaxed)
    }

    /// Tokens that had been counted when the count was resumed.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Relaxed)
    }

    /// Whether everything is read, and the counts are added up.
    pub fn merging(&self) -> bool {
        self.merging.load(Relaxed)
    }

    pub(crate) fn set_reading(&self, progress: Arc<Progress>) {
        let _ = self.reading.set(progress);
    }

    pub(crate) fn set_merging(&self) {
        self.merging.store(true, Relaxed);
    }
}

/// Totals of a finished count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of documents.
    pub documents: u64,
    /// Number of tokens.
    pub tokens: u64,
    /// Number of pairs, with repetitions.
    pub bigrams: u64,
    /// Number of different pairs.
    pub distinct: u64,
    /// Number of triples, with repetitions, where they were counted.
    pub trigrams: u64,
    /// Number of different triples.
    pub distinct_trigrams: u64,
    /// Sentences that were left out because they were read before.
    pub repeated_sentences: u64,
    /// Lines of JSONL that are not documents.
    pub bad_lines: u64,
    /// What is wrong with the first of them.
    pub bad_line: Option<String>,
}
