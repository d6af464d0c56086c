//! Counting in memory.

use cascade_core::TokenId;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{NgramLimits, NgramRows, NgramTable};
use crate::bigram_table::check_tokens;
use crate::{BigramRows, BigramTable, Error, Provenance, Result};

/// Counts pairs and, for order 2, triples of neighbouring tokens, exactly and in memory: about 30
/// bytes for each distinct one. Crate `cascade-bigram` counts more text than fits.
///
/// Counts of parts can be made in parallel and [merged](Self::merge); the table does not depend on
/// how documents were divided or ordered.
#[derive(Clone, Debug)]
pub struct NgramBuilder {
    order: usize,
    provenance: Provenance,
    documents: u64,
    unigrams: Vec<u64>,
    pairs: HashMap<[TokenId; 2], u64, FxBuildHasher>,
    triples: HashMap<[TokenId; 3], u64, FxBuildHasher>,
}

impl NgramBuilder {
    /// A builder of tables with contexts of 1 to `order` tokens of a vocabulary of `vocab_size`,
    /// which has seen nothing yet.
    pub fn new(order: usize, vocab_size: usize, provenance: Provenance) -> Self {
        Self {
            order,
            provenance,
            documents: 0,
            unigrams: vec![0; vocab_size],
            pairs: HashMap::default(),
            triples: HashMap::default(),
        }
    }

    /// Counts one document. No n-gram reaches across documents.
    ///
    /// # Errors
    /// A token outside the vocabulary; nothing of the document is counted then.
    pub fn add_document(&mut self, tokens: &[TokenId]) -> Result<()> {
        check_tokens("a document", tokens, self.unigrams.len())?;
        self.documents += 1;
        for &token in tokens {
            self.unigrams[token as usize] += 1;
        }
        for pair in tokens.windows(2) {
            *self.pairs.entry([pair[0], pair[1]]).or_default() += 1;
        }
        let triples = tokens.windows(3).filter(|_| self.order > 1);
        for triple in triples {
            let triple = [triple[0], triple[1], triple[2]];
            *self.triples.entry(triple).or_default() += 1;
        }
        Ok(())
    }

    /// Adds the counts of another builder.
    ///
    /// # Errors
    /// [`Error::Merge`] if it is for a vocabulary of another size, [`Error::Invalid`] if it is of
    /// another order.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        if self.unigrams.len() != other.unigrams.len() {
            return Err(Error::Merge {
                left: self.unigrams.len(),
                right: other.unigrams.len(),
            });
        }
        if self.order != other.order {
            let (left, right) = (self.order, other.order);
            let reason = format!("counts of orders {left} and {right} cannot be merged");
            return Err(Error::invalid(super::rows::NEW, reason));
        }
        self.documents += other.documents;
        for (sum, count) in self.unigrams.iter_mut().zip(other.unigrams) {
            *sum += count;
        }
        for (pair, count) in other.pairs {
            *self.pairs.entry(pair).or_default() += count;
        }
        for (triple, count) in other.triples {
            *self.triples.entry(triple).or_default() += count;
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

    /// The table of the `top_k` most frequent successors of each token, of those that follow it at
    /// least `min_count` times, with exact counts. Triples play no part.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty vocabulary.
    pub fn finish_bigrams(self, top_k: usize, min_count: u64) -> Result<BigramTable> {
        let mut rows = BigramRows::new(self.unigrams.len(), top_k, min_count);
        for (token, count) in (0..).zip(self.unigrams) {
            rows.add_token(token, count)?;
        }
        for ([token, successor], count) in sorted(self.pairs) {
            rows.add_pair(token, successor, count)?;
        }
        rows.finish(self.documents, self.provenance)
    }

    /// The table.
    ///
    /// # Errors
    /// As [`NgramRows::new`].
    pub fn finish(self, limits: NgramLimits) -> Result<NgramTable> {
        let mut rows = NgramRows::new(self.order, self.unigrams.len(), limits)?;
        for (token, count) in (0..).zip(self.unigrams) {
            rows.add_token(token, count)?;
        }
        for ([last, next], count) in sorted(self.pairs) {
            rows.add_pair(last, next, count)?;
        }
        for ([first, second, next], count) in sorted(self.triples) {
            rows.add_triple([first, second], next, count)?;
        }
        rows.finish(self.documents, self.provenance)
    }
}

fn sorted<K: Ord>(counts: HashMap<K, u64, FxBuildHasher>) -> Vec<(K, u64)> {
    let mut counts: Vec<(K, u64)> = counts.into_iter().collect();
    counts.sort_unstable();
    counts
}
