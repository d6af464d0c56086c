//! Counts in memory.

use cascade_core::TokenId;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::grams::{Count, token_key};

/// Bytes for each bucket of the map when its counts are sorted: of the bucket, with a byte of
/// control, and of the sorted copy. While the map grows it takes less.
const BUCKET: u64 = 2 * size_of::<Count>() as u64;
const FEWEST_BUCKETS: u64 = 1 << 10;

/// Counts of n-grams in a hash map, which grows up to a limit, and of tokens in a list.
#[derive(Debug)]
pub(crate) struct GramCounts {
    grams: HashMap<u64, u64, FxBuildHasher>,
    most_grams: usize,
    tokens: Vec<u64>,
}

impl GramCounts {
    /// Counts for `vocab_size` tokens that take about `memory` bytes at most: a power of two of 32
    /// bytes for each bucket, of which seven eighths are used, and not less than 32 KiB.
    pub(crate) fn new(vocab_size: usize, memory: u64) -> Self {
        let buckets = (memory / BUCKET).max(FEWEST_BUCKETS);
        let power_of_two = 1 << buckets.ilog2().min(usize::BITS - 2);
        Self {
            grams: HashMap::default(),
            most_grams: power_of_two / 8 * 7,
            tokens: vec![0; vocab_size],
        }
    }

    /// Counts a token.
    pub(crate) fn add_token(&mut self, token: TokenId) {
        self.tokens[token as usize] += 1;
    }

    /// Counts an n-gram once more; `false`, and nothing is counted, if the memory is used up.
    pub(crate) fn add_gram(&mut self, key: u64) -> bool {
        if self.grams.len() == self.most_grams {
            return false;
        }
        *self.grams.entry(key).or_default() += 1;
        true
    }

    /// All counts, sorted by key; the next count begins at 0.
    pub(crate) fn take_sorted(&mut self) -> Vec<Count> {
        let tokens = (0..).zip(&self.tokens).filter(|(_, count)| **count > 0);
        let alone = tokens.map(|(token, count)| (token_key(token), *count));
        let mut counts = Vec::with_capacity(self.grams.len() + alone.clone().count());
        counts.extend(self.grams.drain());
        counts.extend(alone);
        counts.sort_unstable();
        self.tokens.fill(0);
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn counts_are_exact_up_to_the_limit() {
        let mut counts = GramCounts::new(100, 1 << 17);
        let mut expected = BTreeMap::new();
        let mut refused = 0;
        for i in 0..20_000u64 {
            let key = (i * i % 97) << 32 | (i * 7 % 89);
            if counts.add_gram(key) {
                *expected.entry(key).or_insert(0) += 1;
            } else {
                refused += 1;
            }
        }
        assert!(refused > 0);
        counts.add_token(3);
        expected.insert(token_key(3), 1);
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(counts.take_sorted(), expected);
        assert!(counts.add_gram(5));
        assert_eq!(counts.take_sorted(), [(5, 1)]);
    }
}
