//! Errors of counting.

use std::io;
use std::path::{Path, PathBuf};

use cascade_core::Fingerprint;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What an encoder may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a corpus cannot be counted, or counts cannot be read, added up or written.
///
/// Every message names the file and, if there is one, the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text cannot be read.
    #[error(transparent)]
    Corpus(#[from] cascade_corpus::Error),

    /// The table cannot be made or written.
    #[error(transparent)]
    Table(#[from] cascade_ngram::Error),

    /// The tokenizer refuses a document.
    #[error("cannot tokenize the document at byte {offset} of {file}: {source}")]
    Encode {
        /// The file.
        file: String,
        /// Where the document starts, after decompression.
        offset: u64,
        /// The tokenizer's error.
        source: BoxError,
    },

    /// The tokenizer gave an id that is not in its vocabulary.
    #[error(
        "the tokenizer gave the id {token}, and its vocabulary ends at {vocab_size}; \
         is the tokenizer file complete?"
    )]
    OutOfVocabulary {
        /// The id.
        token: u32,
        /// One more than the highest id.
        vocab_size: usize,
    },

    /// No input has a document.
    #[error("there is no document in {inputs}; are these the right files?{hint}")]
    NoDocuments {
        /// The inputs.
        inputs: String,
        /// What was passed over, if anything.
        hint: String,
    },

    /// The memory is used up before anything is counted.
    #[error(
        "{memory} MiB of memory is too little: tokenizer, readers and {threads} threads take about {fixed} MiB \
         alone; give --memory {least}MiB at least, or fewer threads"
    )]
    Memory {
        /// The limit, in MiB.
        memory: u64,
        /// The number of threads.
        threads: usize,
        /// What is needed besides the counts, in MiB.
        fixed: u64,
        /// The smallest sufficient limit, in MiB.
        least: u64,
    },

    /// A thread cannot be started.
    #[error(
        "cannot start {threads} threads that count: {source}; give fewer (--threads 1), or raise the limit of memory \
         or of processes (`ulimit -v`, `ulimit -u`)"
    )]
    Thread {
        /// How many were wanted.
        threads: usize,
        /// The operating system's error.
        source: io::Error,
    },

    /// A file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },

    /// A file cannot be written.
    #[error(
        "cannot write {}: {source}; nothing stands under the final name that was not there before",
        file.display()
    )]
    Write {
        /// The file.
        file: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },

    /// The output path is unusable.
    #[error("cannot write {}: {reason}", file.display())]
    Output {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: &'static str,
    },

    /// There is an unfinished count, and resuming was not asked for.
    #[error(
        "{} holds an unfinished count of {documents} documents; go on with it by --resume, or delete the folder \
         to start anew",
        folder.display()
    )]
    Unfinished {
        /// The folder.
        folder: PathBuf,
        /// What has been counted.
        documents: u64,
    },

    /// The unfinished count is of something else.
    #[error(
        "{} is of another command and cannot be resumed by this one: it was {found:?}, this is {expected:?}; \
         give the same command, or delete the folder to start anew",
        folder.display()
    )]
    OtherCommand {
        /// The folder.
        folder: PathBuf,
        /// Its command and vocabulary.
        found: String,
        /// Command and vocabulary of this call.
        expected: String,
    },

    /// The inputs have changed since.
    #[error(
        "the first {documents} documents of the inputs are not those that {} has counted; \
         give the same inputs, or delete the folder to start anew",
        folder.display()
    )]
    ChangedInputs {
        /// The folder.
        folder: PathBuf,
        /// What had been counted.
        documents: u64,
    },

    /// Another process uses the folder.
    #[error("{} is in use by another process that writes the same table; wait for it", folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
    },

    /// A file of an unfinished count is not as it was written.
    #[error("{} is damaged: {reason}; delete its folder and start anew", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },

    /// A file that is not a file of partial counts.
    #[error("{file} is not a file of counts: {reason}")]
    Part {
        /// The file.
        file: String,
        /// What is wrong, and what would be right.
        reason: String,
    },

    /// Partial counts of different vocabularies.
    #[error(
        "{file} was counted with another tokenizer than {other}: {found} and {expected}; \
         count both with the same one"
    )]
    OtherTokenizer {
        /// The file.
        file: String,
        /// The file before it.
        other: String,
        /// The fingerprint of the one.
        found: Fingerprint,
        /// The fingerprint of the other.
        expected: Fingerprint,
    },

    /// More than can be counted in 64 bits.
    #[error("the count of token {successor} after token {token} does not fit into 64 bits")]
    Overflow {
        /// The token.
        token: u32,
        /// Its successor.
        successor: u32,
    },

    /// A bug of this crate or of the tokenizer. The other threads were stopped cleanly.
    #[error("a thread that counts has panicked; its message is printed above")]
    Panicked,
}

impl Error {
    pub(crate) fn write(file: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Write {
            file: file.to_owned(),
            source,
        }
    }

    pub(crate) fn read(file: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Read {
            file: file.to_owned(),
            source,
        }
    }
}
