//! Builds tables from sorted counts.

use std::cmp::Reverse;

use cascade_core::TokenId;

use super::{encode::Csr, BigramMetadata, BigramTable};
use crate::{Error, Provenance, Result};

/// Makes a table of counts that come in the order of (token, successor), and keeps of each token no
/// more than the table will hold: in memory are the table and one token's successors.
#[derive(Clone, Debug)]
pub struct BigramRows {
    top_k: usize,
    min_count: u64,
    unigrams: Vec<u64>,
    /// The rows before the current one.
    done: Vec<Vec<(TokenId, u64)>>,
    /// The current row, by rising successor, without what is too rare.
    row: Vec<(TokenId, u64)>,
    last: Option<(TokenId, TokenId)>,
    total_bigrams: u64,
}

impl BigramRows {
    /// A table for a vocabulary of `vocab_size` tokens that will hold the `top_k` most frequent
    /// successors of each token, of those that follow it at least `min_count` times. Of equally
    /// frequent successors the lower ids are kept.
    pub fn new(vocab_size: usize, top_k: usize, min_count: u64) -> Self {
        Self {
            top_k,
            min_count,
            unigrams: vec![0; vocab_size],
            done: Vec::new(),
            row: Vec::new(),
            last: None,
            total_bigrams: 0,
        }
    }

    /// Sets how often a token occurs; a token without a call never occurs. In any order.
    ///
    /// # Errors
    /// A token outside the vocabulary.
    pub fn add_token(&mut self, token: TokenId, count: u64) -> Result<()> {
        check_tokens("the counts", &[token], self.unigrams.len())?;
        self.unigrams[token as usize] = count;
        Ok(())
    }

    /// Adds how often `successor` follows `token`.
    ///
    /// # Errors
    /// A token outside the vocabulary, and a pair that does not come after the one before.
    pub fn add_pair(&mut self, token: TokenId, successor: TokenId, count: u64) -> Result<()> {
        check_tokens("the counts", &[token, successor], self.unigrams.len())?;
        if self.last.is_some_and(|last| last >= (token, successor)) {
            return Err(Error::Unsorted { token, successor });
        }
        self.last = Some((token, successor));
        self.begin_row(token as usize);
        self.total_bigrams = self.total_bigrams.saturating_add(count);
        if count >= self.min_count.max(1) {
            self.row.push((successor, count));
        }
        Ok(())
    }

    /// The table.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty vocabulary.
    pub fn finish(mut self, documents: u64, provenance: Provenance) -> Result<BigramTable> {
        self.begin_row(self.unigrams.len());
        let metadata = BigramMetadata {
            top_k: self.top_k as u64,
            min_count: self.min_count,
            documents,
            total_tokens: self
                .unigrams
                .iter()
                .fold(0, |sum, &n| sum.saturating_add(n)),
            total_bigrams: self.total_bigrams,
            provenance,
        };
        let csr = Csr::new(&self.done, self.unigrams);
        BigramTable::from_csr("a new table", &metadata, &csr)
    }

    /// Closes the rows before that of `token`.
    fn begin_row(&mut self, token: usize) {
        while self.done.len() < token {
            self.row
                .sort_unstable_by_key(|&(successor, count)| (Reverse(count), successor));
            self.row.truncate(self.top_k);
            self.done.push(self.row.clone());
            self.row.clear();
        }
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
