//! Counts in memory.

use cascade_core::TokenId;

/// What stands for the successor where a count is of the token alone. No token has this id: vocabularies are smaller.
pub(crate) const ALONE: TokenId = TokenId::MAX;

/// A pair, or a token alone, in one number, so that the order of numbers is the order of files: by token, by successor,
/// the token alone last.
pub(crate) fn key(token: TokenId, successor: TokenId) -> u64 {
    u64::from(token) << 32 | u64::from(successor)
}

/// The token and the successor of a key.
pub(crate) fn parts(key: u64) -> (TokenId, TokenId) {
    ((key >> 32) as TokenId, key as TokenId)
}

/// A key and how often it was counted.
pub(crate) type Count = (u64, u64);

/// A place that holds nothing. It is no key: it would be of the token [`ALONE`].
const VACANT: Count = (u64::MAX, 0);

/// Bytes for each place: of the place itself, and of half a place while the map grows.
const BYTES: usize = size_of::<Count>() * 3 / 2;
const FEWEST: usize = 1 << 10;

/// Counts of pairs in a hash map with open addressing, which grows up to a limit, and of tokens in a list.
#[derive(Debug)]
pub(crate) struct PairCounts {
    places: Vec<Count>,
    used: usize,
    most: usize,
    tokens: Vec<u64>,
}

impl PairCounts {
    /// Counts for `vocab_size` tokens that take about `memory` bytes at most: a power of two of 24 bytes for each place,
    /// of which three quarters are used, and not less than 24 KiB.
    pub(crate) fn new(vocab_size: usize, memory: u64) -> Self {
        let places = usize::try_from(memory / BYTES as u64).unwrap_or(usize::MAX);
        let most = match places.checked_next_power_of_two() {
            Some(power) if power == places => power,
            Some(power) => power / 2,
            None => 1 << (usize::BITS - 1),
        };
        Self {
            places: vec![VACANT; FEWEST],
            used: 0,
            most: most.max(FEWEST),
            tokens: vec![0; vocab_size],
        }
    }

    /// Counts a token.
    pub(crate) fn add_token(&mut self, token: TokenId) {
        self.tokens[token as usize] += 1;
    }

    /// Counts a pair once more; `false`, and nothing is counted, if the memory is used up.
    pub(crate) fn add_pair(&mut self, pair: u64) -> bool {
        if self.used >= self.places.len() / 4 * 3 && !self.grow() {
            return false;
        }
        let at = find(&self.places, pair);
        let place = &mut self.places[at];
        self.used += usize::from(place.0 != pair);
        *place = (pair, place.1 + 1);
        true
    }

    /// All counts, sorted by key, and nothing is counted any more.
    pub(crate) fn take_sorted(
        &mut self,
        take: impl FnOnce(&[Count]) -> crate::Result<()>,
    ) -> crate::Result<()> {
        let size = self.places.len();
        self.places.retain(|place| *place != VACANT);
        let tokens = (0..).zip(&self.tokens).filter(|(_, count)| **count > 0);
        self.places
            .extend(tokens.map(|(token, count)| (key(token, ALONE), *count)));
        self.places.sort_unstable();
        let taken = take(&self.places);
        self.places.clear();
        self.places.resize(size, VACANT);
        self.places.shrink_to(size);
        self.used = 0;
        self.tokens.fill(0);
        taken
    }

    fn grow(&mut self) -> bool {
        let size = self.places.len() * 2;
        if size > self.most {
            return false;
        }
        let mut places = vec![VACANT; size];
        for place in self.places.iter().filter(|place| **place != VACANT) {
            let at = find(&places, place.0);
            places[at] = *place;
        }
        self.places = places;
        true
    }
}

/// Where a key is or would be. There is always a vacant place.
fn find(places: &[Count], key: u64) -> usize {
    let mask = places.len() - 1;
    // The upper bits of a product with the golden ratio depend on all bits of the key.
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let mut at = hash as usize & mask;
    while places[at].0 != key && places[at] != VACANT {
        at = (at + 1) & mask;
    }
    at
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn counts_are_exact_up_to_the_limit() {
        let mut counts = PairCounts::new(100, 1 << 17);
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
