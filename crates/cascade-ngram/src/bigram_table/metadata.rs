//! Metadata of tables.

use std::collections::HashMap;

use crate::container::{self, Entries, BIGRAMS, NGRAMS};
use crate::{Error, Provenance, Result};

// Version 1 described corpus and producer in prose, instead of sources, command and version.
const FORMAT_VERSION: u32 = 2;

/// The metadata of a table: the `__metadata__` of its file.
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
    pub(super) fn to_entries(&self) -> Vec<(&'static str, String)> {
        let mut entries = container::beginning(BIGRAMS, FORMAT_VERSION, &self.provenance);
        entries.extend([
            ("top_k", self.top_k.to_string()),
            ("min_count", self.min_count.to_string()),
            ("documents", self.documents.to_string()),
            ("total_tokens", self.total_tokens.to_string()),
            ("total_bigrams", self.total_bigrams.to_string()),
        ]);
        entries
    }

    /// Reads the entries of a file.
    ///
    /// # Errors
    /// Another format or version, and entries that are missing or malformed.
    pub(super) fn from_entries(
        file: &str,
        entries: &Option<HashMap<String, String>>,
    ) -> Result<Self> {
        if container::declare(entries, NGRAMS) {
            return Err(Error::NgramTable { file: file.into() });
        }
        let Some(entries) = Entries::of_format(file, entries, BIGRAMS, FORMAT_VERSION)? else {
            return Err(Error::NotATable { file: file.into() });
        };
        Ok(Self {
            provenance: entries.provenance()?,
            top_k: entries.number("top_k")?,
            min_count: entries.number("min_count")?,
            documents: entries.number("documents")?,
            total_tokens: entries.number("total_tokens")?,
            total_bigrams: entries.number("total_bigrams")?,
        })
    }
}
