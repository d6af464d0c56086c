//! Which n-grams are counted, and how they are keys of sorted lists.

use cascade_core::TokenId;

use crate::pairs;
use crate::Result;

/// The n-grams of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grams {
    /// Pairs of neighbours: keys of 32 bits a token.
    Pairs,
    /// Triples of neighbours: keys of 21 bits a token. Of pairs only the last of each document is
    /// counted: all others are the beginnings of triples.
    Triples,
}

/// What a key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gram {
    Token(TokenId),
    Pair(TokenId, TokenId),
    Triple([TokenId; 2], TokenId),
}

const BITS: u32 = 21;
/// In place of a token: there is none. It comes after all tokens.
const NONE: TokenId = (1 << BITS) - 1;

fn triple(first: TokenId, second: TokenId, third: TokenId) -> u64 {
    u64::from(first) << (2 * BITS) | u64::from(second) << BITS | u64::from(third)
}

impl Grams {
    /// The n-grams of tables with contexts of at most so many tokens.
    pub(crate) fn of_order(order: usize) -> Self {
        match order {
            0 | 1 => Self::Pairs,
            _ => Self::Triples,
        }
    }

    /// The key of a token alone.
    pub(crate) fn token(self, token: TokenId) -> u64 {
        match self {
            Self::Pairs => pairs::key(token, pairs::ALONE),
            Self::Triples => triple(token, NONE, NONE),
        }
    }

    /// What a key counts.
    pub(crate) fn gram(self, key: u64) -> Gram {
        if self == Self::Pairs {
            return match pairs::parts(key) {
                (token, pairs::ALONE) => Gram::Token(token),
                (token, successor) => Gram::Pair(token, successor),
            };
        }
        let at = |place: u32| (key >> (place * BITS)) as TokenId & NONE;
        match [at(2), at(1), at(0)] {
            [token, NONE, _] => Gram::Token(token),
            [first, second, NONE] => Gram::Pair(first, second),
            [first, second, third] => Gram::Triple([first, second], third),
        }
    }

    /// Hands over the keys of all n-grams of a document, each as often as it occurs.
    pub(crate) fn of_document(
        self,
        tokens: &[TokenId],
        mut add: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        match (self, tokens) {
            (Self::Pairs, _) => tokens
                .windows(2)
                .try_for_each(|pair| add(pairs::key(pair[0], pair[1]))),
            (Self::Triples, &[.., first, second]) => {
                let mut triples = tokens.windows(3);
                triples.try_for_each(|of| add(triple(of[0], of[1], of[2])))?;
                add(triple(first, second, NONE))
            }
            (Self::Triples, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grams(grams: Grams, tokens: &[TokenId]) -> Vec<Gram> {
        let mut found = Vec::new();
        let add = |key| {
            found.push(grams.gram(key));
            Ok(())
        };
        grams.of_document(tokens, add).unwrap();
        found
    }

    #[test]
    fn keys_say_what_they_count() {
        let largest = NONE - 1;
        assert_eq!(
            grams(Grams::Triples, &[largest, 0, largest, 7]),
            [
                Gram::Triple([largest, 0], largest),
                Gram::Triple([0, largest], 7),
                Gram::Pair(largest, 7)
            ]
        );
        assert_eq!(grams(Grams::Triples, &[3, 4]), [Gram::Pair(3, 4)]);
        assert_eq!(grams(Grams::Triples, &[3]), []);
        assert_eq!(
            grams(Grams::Pairs, &[3, 4, 5]),
            [Gram::Pair(3, 4), Gram::Pair(4, 5)]
        );
        for grams in [Grams::Pairs, Grams::Triples] {
            assert_eq!(grams.gram(grams.token(largest)), Gram::Token(largest));
        }
    }

    #[test]
    fn keys_are_in_the_order_of_tables() {
        let key = |a, b, c| triple(a, b, c);
        let sorted = [
            key(1, 1, 9),
            key(1, 1, NONE),
            key(1, 2, 0),
            key(1, NONE, NONE),
            key(2, 0, 0),
        ];
        assert!(sorted.is_sorted());
    }
}
