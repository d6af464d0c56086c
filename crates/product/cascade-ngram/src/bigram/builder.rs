//! Counting bigrams.

use cascade_core::TokenId;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{BigramRows, BigramTable, Provenance};
use crate::{Error, Result};

/// Counts pairs of neighbouring tokens, exactly and in memory: about 30 bytes for each distinct
/// pair.
///
/// Counts of parts can be made in parallel and [merged](Self::merge); the table does not depend on
/// how documents were divided or ordered.
#[derive(Clone, Debug)]
pub struct BigramBuilder {
    provenance: Provenance,
    documents: u64,
    unigrams: Vec<u64>,
    /// Keyed by `token << 32 | successor`.
    bigrams: HashMap<u64, u64, FxBuildHasher>,
}

impl BigramBuilder {
    /// A builder for a vocabulary of `vocab_size` tokens that has seen nothing yet.
    pub fn new(vocab_size: usize, provenance: Provenance) -> Self {
        Self {
            provenance,
            documents: 0,
            unigrams: vec![0; vocab_size],
            bigrams: HashMap::default(),
        }
    }

    /// Counts the tokens and pairs of one document. No pair reaches across documents.
    ///
    /// # Errors
    /// A token outside the vocabulary; nothing of the document is counted then.
    pub fn add_document(&mut self, tokens: &[TokenId]) -> Result<()> {
        let vocab_size = self.unigrams.len();
        check_tokens("a document", tokens, vocab_size)?;
        self.documents += 1;
        for &token in tokens {
            self.unigrams[token as usize] += 1;
        }
        for pair in tokens.windows(2) {
            *self.bigrams.entry(key(pair[0], pair[1])).or_default() += 1;
        }
        Ok(())
    }

    /// Adds the counts of another builder.
    ///
    /// # Errors
    /// [`Error::Merge`] if it is for a vocabulary of another size.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        if self.unigrams.len() != other.unigrams.len() {
            return Err(Error::Merge {
                left: self.unigrams.len(),
                right: other.unigrams.len(),
            });
        }
        self.documents += other.documents;
        for (sum, count) in self.unigrams.iter_mut().zip(other.unigrams) {
            *sum += count;
        }
        for (pair, count) in other.bigrams {
            *self.bigrams.entry(pair).or_default() += count;
        }
        Ok(())
    }

    /// Number of documents so far.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Number of tokens so far.
    pub fn total_tokens(&self) -> u64 {
        self.unigrams.iter().sum()
    }

    /// Number of distinct pairs so far.
    pub fn distinct_bigrams(&self) -> usize {
        self.bigrams.len()
    }

    /// The table of the `top_k` most frequent successors of each token, of those that follow it at
    /// least `min_count` times.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty vocabulary.
    pub fn finish(self, top_k: usize, min_count: u64) -> Result<BigramTable> {
        let mut pairs: Vec<(u64, u64)> = self.bigrams.into_iter().collect();
        pairs.sort_unstable();
        let mut rows = BigramRows::new(self.unigrams.len(), top_k, min_count);
        for (token, count) in (0..).zip(self.unigrams) {
            rows.add_token(token, count)?;
        }
        for (pair, count) in pairs {
            rows.add_pair((pair >> 32) as TokenId, pair as TokenId, count)?;
        }
        rows.finish(self.documents, self.provenance)
    }
}

/// Refuses tokens outside the vocabulary; `what` names the list.
pub(crate) fn check_tokens(what: &str, tokens: &[TokenId], vocab_size: usize) -> Result<()> {
    match tokens.iter().position(|&t| t as usize >= vocab_size) {
        None => Ok(()),
        Some(index) => Err(Error::TokenOutOfVocabulary {
            what: what.to_owned(),
            index,
            token: tokens[index],
            vocab_size,
        }),
    }
}

fn key(token: TokenId, successor: TokenId) -> u64 {
    u64::from(token) << 32 | u64::from(successor)
}
