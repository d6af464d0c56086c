//! Partial counts as Parquet files.
//!
//! | column | type | content |
//! |---|---|---|
//! | `left` | UINT_32 | a token |
//! | `right` | UINT_32, optional | the token after it; null: `count` is that of `left` alone |
//! | `count` | UINT_64 | how often |
//!
//! Rows are sorted by `left`, then `right`, nulls last. As nulls are one group in SQL, `sum(count)
//! … group by left, right` adds up pairs and tokens alike. Everything else about the text is in the
//! file's metadata under `cascade-bigram`. Files that SQL has summed have no such entry, and other
//! integer types: those are read as well, if they are sorted.
//!
//! Under `cascade-bigram-sha256` is a digest of that entry and of all rows, which is compared when
//! they are read: the Parquet library writes pages without checksums. Files that SQL or earlier
//! versions of this program have written have no digest, and are read without.

use cascade_core::Fingerprint;
use cascade_ngram::Source;
use serde::{Deserialize, Serialize};

mod digest;
mod reader;
mod writer;

pub(crate) use reader::PartReader;
pub(crate) use writer::PartWriter;

const METADATA: &str = "cascade-bigram";
/// The digest of that metadata and of the rows.
const DIGEST: &str = "cascade-bigram-sha256";
const FORMAT: u32 = 1;

/// Metadata of partial counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInfo {
    format: u32,
    tokenizer: String,
    vocab_size: usize,
    documents: u64,
    sources: Vec<Source>,
    command: String,
    version: String,
}

impl PartInfo {
    pub(crate) fn new(
        tokenizer: &Fingerprint,
        vocab_size: usize,
        documents: u64,
        sources: Vec<Source>,
        command: String,
    ) -> Self {
        Self {
            format: FORMAT,
            tokenizer: tokenizer.to_string(),
            vocab_size,
            documents,
            sources,
            command,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The vocabulary that the ids belong to.
    pub fn tokenizer(&self) -> Fingerprint {
        Fingerprint::from_stored(self.tokenizer.clone())
    }

    /// One more than the highest id of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Number of documents that were counted.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The command that counted.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The files that were counted.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }
}
