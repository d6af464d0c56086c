//! Bigram tables as tables of order 1.

use cascade_core::TokenId;

use super::{NgramLimits, NgramRows, NgramTable};
use crate::{BigramTable, Result};

impl NgramTable {
    /// The content of a bigram table, as a table of order 1: of each token at most 255 successors,
    /// with the token's own frequency as their total.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a table that is too large for the format.
    pub fn of_bigrams(table: &BigramTable) -> Result<Self> {
        let of = table.metadata();
        let top_k = of.top_k.clamp(1, u8::MAX.into()) as usize;
        let limits = NgramLimits {
            top_k,
            min_count: of.min_count,
            min_context: 0,
        };
        let mut rows = NgramRows::new(1, table.vocab_size(), limits)?;
        for token in 0..table.vocab_size() as TokenId {
            let frequency = table.unigram_count(token);
            rows.add_token(token, frequency)?;
            let mut successors: Vec<(TokenId, u64)> = table.successors(token).collect();
            successors.sort_unstable();
            for (successor, count) in successors {
                rows.add_pair(token, successor, count)?;
            }
            rows.raise_total(token, frequency);
        }
        rows.finish_as(table.file(), of)
    }
}
