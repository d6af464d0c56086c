//! What a table says about itself.

use std::collections::HashMap;

use cascade_core::Fingerprint;

use crate::{Error, Result};

const FORMAT: &str = "cascade-bigram";
const FORMAT_VERSION: u32 = 1;

/// Where a table comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The vocabulary that its token ids belong to.
    pub tokenizer: Fingerprint,
    /// The text that was counted, in words.
    pub corpus: String,
    /// The command that made it, with the program's version.
    pub producer: String,
}

/// What a table says about itself: the `__metadata__` of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BigramMetadata {
    /// Where it comes from.
    pub provenance: Provenance,
    /// Successors kept for each token, at most.
    pub top_k: u64,
    /// Pairs that occur less often were dropped.
    pub min_count: u64,
    /// Number of documents that were counted.
    pub documents: u64,
    /// Number of tokens in them.
    pub total_tokens: u64,
    /// Number of pairs of neighbours in them, with repetitions, before any were dropped.
    pub total_bigrams: u64,
}

impl BigramMetadata {
    /// Entries for the file, in the order in which they are written.
    pub(super) fn to_entries(&self) -> [(&'static str, String); 10] {
        let Provenance {
            tokenizer,
            corpus,
            producer,
        } = &self.provenance;
        [
            ("format", FORMAT.to_owned()),
            ("format_version", FORMAT_VERSION.to_string()),
            ("tokenizer", tokenizer.to_string()),
            ("corpus", corpus.clone()),
            ("producer", producer.clone()),
            ("top_k", self.top_k.to_string()),
            ("min_count", self.min_count.to_string()),
            ("documents", self.documents.to_string()),
            ("total_tokens", self.total_tokens.to_string()),
            ("total_bigrams", self.total_bigrams.to_string()),
        ]
    }

    /// Reads the entries of a file.
    ///
    /// # Errors
    /// Another format or version, and entries that are missing or malformed.
    pub(super) fn from_entries(
        file: &str,
        entries: &Option<HashMap<String, String>>,
    ) -> Result<Self> {
        let entry = |key: &str| entries.as_ref().and_then(|entries| entries.get(key));
        if entry("format").map(String::as_str) != Some(FORMAT) {
            return Err(Error::NotATable { file: file.into() });
        }
        let text = |key| {
            entry(key).cloned().ok_or_else(|| Error::Metadata {
                file: file.into(),
                key,
            })
        };
        let version = text("format_version")?;
        if version != FORMAT_VERSION.to_string() {
            return Err(Error::Version {
                file: file.into(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        let number = |key| {
            text(key)?.parse().map_err(|_| Error::Metadata {
                file: file.into(),
                key,
            })
        };
        Ok(Self {
            provenance: Provenance {
                tokenizer: Fingerprint::from_stored(text("tokenizer")?),
                corpus: text("corpus")?,
                producer: text("producer")?,
            },
            top_k: number("top_k")?,
            min_count: number("min_count")?,
            documents: number("documents")?,
            total_tokens: number("total_tokens")?,
            total_bigrams: number("total_bigrams")?,
        })
    }
}
