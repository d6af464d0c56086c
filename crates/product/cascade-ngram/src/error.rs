//! What can go wrong with bigram tables.

use std::{io, path::PathBuf};

use cascade_core::{Fingerprint, TokenId};
use safetensors::{Dtype, SafeTensorError};

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of reading, building or writing a bigram table. `file` is the path, or the name of an embedded table.
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
        source: SafeTensorError,
    },

    /// A safetensors file that says it is something else, or says nothing.
    #[error(
        "{file} is not a bigram table: its metadata has no `format` of `cascade-bigram`; \
         build one with `cascade bigram build`"
    )]
    NotATable {
        /// The file.
        file: String,
    },

    /// A table in a format that this version does not know.
    #[error(
        "{file} is a bigram table of format version {found}, and this program reads version {supported}; \
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

    /// Metadata that is missing or cannot be read.
    #[error("{file}: the metadata `{key}` is missing or is not of the right form")]
    Metadata {
        /// The file.
        file: String,
        /// Name of the entry.
        key: &'static str,
    },

    /// A tensor that is not there.
    #[error("{file}: tensor `{tensor}` is missing")]
    MissingTensor {
        /// The file.
        file: String,
        /// Name of the tensor.
        tensor: &'static str,
    },

    /// A tensor of the wrong type.
    #[error("{file}: tensor `{tensor}` is {found:?}, expected {expected:?}")]
    Dtype {
        /// The file.
        file: String,
        /// Name of the tensor.
        tensor: &'static str,
        /// Type in the file.
        found: Dtype,
        /// Type it should have.
        expected: Dtype,
    },

    /// A tensor of the wrong shape.
    #[error("{file}: tensor `{tensor}` has shape {found:?}, expected {expected}")]
    Shape {
        /// The file.
        file: String,
        /// Name of the tensor.
        tensor: &'static str,
        /// Shape in the file.
        found: Vec<usize>,
        /// Shape it should have, in words.
        expected: String,
    },

    /// Offsets that do not divide the successors into rows.
    #[error(
        "{file}: the offsets of token {token} are {start}..{end}, which is no row of {pairs} pairs; \
         offsets begin at 0, never fall, and end at the number of pairs"
    )]
    Offsets {
        /// The file.
        file: String,
        /// Token whose row is wrong.
        token: usize,
        /// First pair of the row.
        start: u64,
        /// First pair of the next row.
        end: u64,
        /// Number of pairs in the table.
        pairs: usize,
    },

    /// A successor that is not in the vocabulary.
    #[error(
        "{file}: successor {successor} of token {token} is outside the vocabulary of {vocab_size}"
    )]
    Successor {
        /// The file.
        file: String,
        /// The token.
        token: usize,
        /// What is said to follow it.
        successor: TokenId,
        /// Size of the vocabulary.
        vocab_size: usize,
    },

    /// Successors out of order, twice in a row, or counted 0 times.
    #[error(
        "{file}: the successors of token {token} are not in order; \
         each stands once, by falling count, equal counts by rising token"
    )]
    Order {
        /// The file.
        file: String,
        /// The token.
        token: usize,
    },

    /// A table for another vocabulary.
    #[error(
        "{file} was built for another tokenizer: the table has {found}, the model has {expected}; \
         build one for this tokenizer with `cascade bigram build`"
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

    /// Tables that cannot be added up.
    #[error("bigram counts of vocabularies of {left} and {right} tokens cannot be merged")]
    Merge {
        /// Size of the one vocabulary.
        left: usize,
        /// Size of the other.
        right: usize,
    },
}
