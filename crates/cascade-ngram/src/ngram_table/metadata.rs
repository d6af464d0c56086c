//! Metadata of tables.

use super::LONGEST;
use crate::container::{self, Entries, NGRAMS};
use crate::{Error, Provenance, Result};

pub(super) const FORMAT_VERSION: u32 = 1;
/// The checksum of everything else: of the other entries and of the tensors.
const CHECKSUM: &str = "crc32";

/// The metadata of a table: the `__metadata__` of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NgramMetadata {
    /// Where it comes from.
    pub provenance: Provenance,
    /// Tokens of the longest contexts: 1 or 2.
    pub order: usize,
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Continuations kept of each context, at most.
    pub top_k: u64,
    /// Continuations that occur less often after their context were dropped.
    pub min_count: u64,
    /// Contexts of two tokens that occur less often were dropped.
    pub min_context: u64,
    /// Number of documents that were counted.
    pub documents: u64,
    /// Number of tokens in them.
    pub total_tokens: u64,
    /// Number of pairs of neighbours in them, with repetitions, before any were dropped.
    pub total_bigrams: u64,
    /// Number of triples of neighbours in them, likewise; 0 in tables of order 1.
    pub total_trigrams: u64,
}

impl NgramMetadata {
    /// Entries for a file with these tensors, in the order in which they are written.
    pub(super) fn to_entries<'a>(
        &self,
        tensors: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<(&'static str, String)> {
        let mut entries = container::beginning(NGRAMS, FORMAT_VERSION, &self.provenance);
        entries.extend([
            ("order", self.order.to_string()),
            ("vocab_size", self.vocab_size.to_string()),
            ("top_k", self.top_k.to_string()),
            ("min_count", self.min_count.to_string()),
            ("min_context", self.min_context.to_string()),
            ("documents", self.documents.to_string()),
            ("total_tokens", self.total_tokens.to_string()),
            ("total_bigrams", self.total_bigrams.to_string()),
            ("total_trigrams", self.total_trigrams.to_string()),
        ]);
        let checksum = checksum(entries.iter().map(|(k, v)| (*k, v.as_str())), tensors);
        entries.push((CHECKSUM, checksum));
        entries
    }

    /// Reads the entries of a file, and compares the checksum; `tensors` are the bytes of all
    /// tensors.
    ///
    /// # Errors
    /// Damage, and entries that are missing or malformed.
    pub(super) fn from_entries(entries: Entries<'_>, tensors: &[u8]) -> Result<Self> {
        let expected = entries.text(CHECKSUM)?;
        let others = entries.iter().filter(|entry| entry.0 != CHECKSUM);
        let found = checksum(others, [tensors]);
        if found != expected {
            return Err(Error::invalid(
                entries.file,
                format!(
                    "the checksum of its content is {found}, not {expected}: it was damaged or changed; \
                     copy or build it anew"
                ),
            ));
        }
        let order = entries.number("order")?;
        if !(1..=LONGEST).contains(&order) {
            return Err(entries.bad("order"));
        }
        Ok(Self {
            provenance: entries.provenance()?,
            order,
            vocab_size: entries.number("vocab_size")?,
            top_k: entries.number("top_k")?,
            min_count: entries.number("min_count")?,
            min_context: entries.number("min_context")?,
            documents: entries.number("documents")?,
            total_tokens: entries.number("total_tokens")?,
            total_bigrams: entries.number("total_bigrams")?,
            total_trigrams: entries.number("total_trigrams")?,
        })
    }
}

/// CRC-32 of the entries in the order of their keys, each key and value followed by a zero byte,
/// and of the tensors' bytes.
fn checksum<'e, 't>(
    entries: impl Iterator<Item = (&'e str, &'e str)>,
    tensors: impl IntoIterator<Item = &'t [u8]>,
) -> String {
    let mut entries: Vec<_> = entries.collect();
    entries.sort_unstable();
    let mut crc = crc32fast::Hasher::new();
    for (key, value) in entries {
        for text in [key, value] {
            crc.update(text.as_bytes());
            crc.update(&[0]);
        }
    }
    for tensor in tensors {
        crc.update(tensor);
    }
    format!("{:08x}", crc.finalize())
}
