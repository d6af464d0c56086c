//! Errors of tables.

use std::{io, path::PathBuf};

use cascade_core::{Fingerprint, TokenId};

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of reading, building or writing a table. `file` is the path, or the name of an
/// embedded table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// The file cannot be written. What was there before is still there.
    #[error("cannot write {}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// Not a safetensors file, or one that was cut short.
    #[error("{file} is not a whole safetensors file; was the download or copy complete?")]
    Container {
        /// The file.
        file: String,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// A safetensors file whose metadata declares neither an n-gram table nor a bigram table.
    #[error(
        "{file} is not an n-gram table: its metadata has no `format` of `cascade-ngram` or `cascade-bigram`; \
         build one with `cascade-lab bigram build`"
    )]
    NotATable {
        /// The file.
        file: String,
    },

    /// A table in a format that this version does not know.
    #[error(
        "{file} is a table of format version {found}, and this program reads version {supported}; \
         rebuild the table or update the program"
    )]
    Version {
        /// The file.
        file: String,
        /// Version in the file.
        found: String,
        /// Version that is understood.
        supported: u32,
    },

    /// A table whose content breaks the format: metadata or tensors that are missing, of another
    /// type or of another shape, rows that are not in order, an empty vocabulary.
    #[error("{file}: {reason}")]
    Invalid {
        /// The file.
        file: String,
        /// What is wrong, and what was expected.
        reason: String,
    },

    /// A table for another vocabulary.
    #[error(
        "{file} was built for another tokenizer: the table has {found:.15}, the model has \
         {expected:.15}; \
         build one for this tokenizer with `cascade-lab bigram build`"
    )]
    Tokenizer {
        /// The file.
        file: String,
        /// Fingerprint in the file.
        found: Fingerprint,
        /// Fingerprint of the tokenizer in use.
        expected: Fingerprint,
    },

    /// A file to import that is not a JSON list of token ids.
    #[error("{file} is not a JSON list of token ids")]
    Json {
        /// The file.
        file: String,
        /// The reason, with line and column.
        source: serde_json::Error,
    },

    /// A token id outside the vocabulary, in a document or a file to import.
    #[error(
        "token {token} at index {index} of {what} is outside the vocabulary of {vocab_size}; \
         is it from the same tokenizer?"
    )]
    TokenOutOfVocabulary {
        /// Where the token was found.
        what: String,
        /// Index there.
        index: usize,
        /// The token.
        token: TokenId,
        /// Size of the vocabulary.
        vocab_size: usize,
    },

    /// Counts that did not come in order.
    #[error("the count of token {successor} after token {token} came out of order or twice")]
    Unsorted {
        /// The first token of the pair.
        token: TokenId,
        /// The second.
        successor: TokenId,
    },
}

impl Error {
    pub(crate) fn invalid(file: &str, reason: impl Into<String>) -> Self {
        Self::Invalid {
            file: file.to_owned(),
            reason: reason.into(),
        }
    }
}
