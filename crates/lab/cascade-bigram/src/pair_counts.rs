//! Counts in memory.

use cascade_core::TokenId;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::grams::Grams;
use crate::pairs::Count;

/// Bytes for each bucket of the map when its counts are sorted: of the bucket, with a byte of
/// control, and of the sorted copy. While the map grows it takes less.
const BUCKET: u64 = 2 * size_of::<Count>() as u64;
const FEWEST_BUCKETS: u64 = 1 << 10;

/// Counts of n-grams in a hash map, which grows up to a limit, and of tokens in a list.
#[derive(Debug)]
pub(crate) struct PairCounts {
    grams: Grams,
    pairs: HashMap<u64, u64, FxBuildHasher>,
    most_pairs: usize,
    tokens: Vec<u64>,
}

impl PairCounts {
    /// Counts for `vocab_size` tokens that take about `memory` bytes at most: a power of two of 32
    /// bytes for each bucket, of which seven eighths are used, and not less than 32 KiB.
    pub(crate) fn new(grams: Grams, vocab_size: usize, memory: u64) -> Self {
        let buckets = (memory / BUCKET).max(FEWEST_BUCKETS);
        let power_of_two = 1 << buckets.ilog2().min(usize::BITS - 2);
        Self {
            grams,
            pairs: HashMap::default(),
            most_pairs: power_of_two / 8 * 7,
            tokens: vec![0; vocab_size],
        }
    }

    /// Counts a token.
    pub(crate) fn add_token(&mut self, token: TokenId) {
        self.tokens[token as usize] += 1;
    }

    /// Counts a pair once more; `false`, and nothing is counted, if the memory is used up.
    pub(crate) fn add_pair(&mut self, pair: u64) -> bool {
        if self.pairs.len() == self.most_pairs {
            return false;
        }
        *self.pairs.entry(pair).or_default() += 1;
        true
    }

    /// Gives all counts, sorted by key, and begins anew.
    pub(crate) fn take_sorted(
        &mut self,
        take: impl FnOnce(&[Count]) -> crate::Result<()>,
    ) -> crate::Result<()> {
        let tokens = (0..).zip(&self.tokens).filter(|(_, count)| **count > 0);
        let alone = tokens.map(|(token, count)| (self.grams.token(token), *count));
        let mut counts = Vec::with_capacity(self.pairs.len() + alone.clone().count());
        counts.extend(self.pairs.drain());
        counts.extend(alone);
        counts.sort_unstable();
        self.tokens.fill(0);
        take(&counts)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::pairs::{key, ALONE};

    #[test]
    fn counts_are_exact_up_to_the_limit() {
        let mut counts = PairCounts::new(Grams::Pairs, 100, 1 << 17);
        let mut expected = BTreeMap::new();
        let mut refused = 0;
        for i in 0..20_000u64 {
            let pair = key((i * i % 97) as u32, (i * 7 % 89) as u32);
            if counts.add_pair(pair) {
                *expected.entry(pair).or_insert(0) += 1;
            } else {
                refused += 1;
            }
        }
        assert!(refused > 0);
        counts.add_token(3);
        expected.insert(key(3, ALONE), 1);
        let expected: Vec<_> = expected.into_iter().collect();
        counts
            .take_sorted(|found| {
                assert_eq!(found, expected);
                Ok(())
            })
            .unwrap();
        assert!(counts.add_pair(5));
        counts
            .take_sorted(|found| {
                assert_eq!(found, [(5, 1)]);
                Ok(())
            })
            .unwrap();
    }
}
