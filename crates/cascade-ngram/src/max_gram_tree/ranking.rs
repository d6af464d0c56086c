//! Tokens by how often they occurred, however many there are.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::continuations::{Followers, Pair};

/// Counts of tokens, by falling count. Adding one and taking it back are O(1), whatever the number
/// of different tokens; for that, tokens of equal counts are in no particular order.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranking {
    pairs: Vec<Pair>,
    positions: HashMap<u32, u32, FxBuildHasher>,
    /// For each count, the number of tokens with greater ones: where tokens of that count begin.
    starts: Vec<u32>,
    total: u32,
}

impl Ranking {
    /// The ranking of pairs that are sorted by falling count, in their order.
    pub(super) fn from_sorted(pairs: Vec<Pair>) -> Self {
        let positions = pairs.iter().zip(0..).map(|(pair, at)| (pair.token, at));
        let greatest = pairs.first().map_or(0, |pair| pair.count);
        let start = |count| pairs.partition_point(|pair| pair.count > count) as u32;
        Self {
            positions: positions.collect(),
            starts: (0..=greatest).map(start).collect(),
            total: pairs.iter().map(|pair| pair.count).sum(),
            pairs,
        }
    }

    /// All tokens, and no more counts.
    pub(super) fn into_pairs(self) -> Vec<Pair> {
        self.pairs
    }

    /// All tokens.
    pub(super) fn followers(&self) -> Followers<'_> {
        Followers {
            total: self.total,
            pairs: &self.pairs,
        }
    }

    /// Counts a token once more, and returns where it was, which [`undo`](Self::undo) needs.
    pub(super) fn add(&mut self, token: u32) -> u32 {
        let end = self.pairs.len() as u32;
        let at = *self.positions.entry(token).or_insert(end);
        if at == end {
            self.pairs.push(Pair { token, count: 0 });
        }
        let count = self.pairs[at as usize].count as usize;
        if count + 1 >= self.starts.len() {
            // No token has a greater count than this one will have.
            self.starts.resize(count + 2, 0);
        }
        // All tokens but this one have a count above 0.
        let to = if count == 0 { end } else { self.starts[count] };
        self.swap(at, to);
        self.pairs[to as usize].count += 1;
        self.starts[count] = to + 1;
        self.total += 1;
        at
    }

    /// Takes back the last [`add`](Self::add) that is not taken back yet.
    pub(super) fn undo(&mut self, token: u32, at: u32) {
        if let Some(&from) = self.positions.get(&token) {
            self.take(token, from, at);
        }
    }

    /// Takes back any former [`add`](Self::add) of a token.
    pub(super) fn remove(&mut self, token: u32) {
        if let Some(&from) = self.positions.get(&token) {
            let count = self.pairs[from as usize].count as usize;
            // The last of those with its count: behind them, it may have one less.
            let last = self.starts[count - 1] - 1;
            self.swap(from, last);
            self.take(token, last, last);
        }
    }

    /// Counts the token at `from`, which no token of its count follows or which was added last,
    /// once less, and moves it to `to`.
    fn take(&mut self, token: u32, from: u32, to: u32) {
        let pair = &mut self.pairs[from as usize];
        pair.count -= 1;
        let count = pair.count as usize;
        self.starts[count] = from;
        self.total -= 1;
        self.swap(to, from);
        if count == 0 {
            self.pairs.pop();
            self.positions.remove(&token);
        }
    }

    fn swap(&mut self, a: u32, b: u32) {
        if a == b {
            return;
        }
        self.pairs.swap(a as usize, b as usize);
        for at in [a, b] {
            self.positions.insert(self.pairs[at as usize].token, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(ranking: &Ranking, tokens: &[u32]) -> Result<(), TestCaseError> {
        let all = ranking.followers();
        prop_assert_eq!(all.total as usize, tokens.len());
        prop_assert!(
            all.pairs
                .windows(2)
                .all(|pair| pair[0].count >= pair[1].count)
        );
        for pair in all.pairs {
            let count = tokens.iter().filter(|&&token| token == pair.token).count();
            prop_assert_eq!(pair.count as usize, count);
            prop_assert!(count > 0);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn counts_are_sorted_and_taken_back(
            tokens in prop::collection::vec(0u32..9, 0..80),
            keep in 0usize..80,
        ) {
            let keep = keep.min(tokens.len());
            let mut ranking = Ranking::default();
            for &token in &tokens[..keep] {
                ranking.add(token);
            }
            let before = ranking.pairs.clone();
            let undos: Vec<_> = tokens[keep..].iter().map(|&token| ranking.add(token)).collect();
            check(&ranking, &tokens)?;
            for (&token, undo) in tokens[keep..].iter().zip(undos).rev() {
                ranking.undo(token, undo);
            }
            prop_assert_eq!(ranking.pairs, before);
        }

        #[test]
        fn any_token_can_be_removed(
            tokens in prop::collection::vec(0u32..9, 1..60),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let mut left = tokens.clone();
            let mut ranking = Ranking::default();
            for &token in &tokens {
                ranking.add(token);
            }
            for index in removed.iter().take(tokens.len()) {
                ranking.remove(left.swap_remove(index.index(left.len())));
                check(&ranking, &left)?;
            }
            let sorted = Ranking::from_sorted(ranking.pairs.clone());
            check(&sorted, &left)?;
            for &token in &tokens {
                ranking.add(token);
                left.push(token);
            }
            check(&ranking, &left)?;
        }
    }
}
