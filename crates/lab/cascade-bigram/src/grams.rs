//! N-grams as keys of sorted lists.

use cascade_core::TokenId;

use crate::Result;

/// A key and how often it was counted.
pub(crate) type Count = (u64, u64);

/// What a key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gram {
    Token(TokenId),
    Pair(TokenId, TokenId),
    Triple([TokenId; 2], TokenId),
}

/// Bits of a token: tables hold vocabularies of at most 2²¹ − 1 tokens.
const BITS: u32 = 21;
/// Stands where a key has no token. It sorts after all tokens.
const NONE: TokenId = (1 << BITS) - 1;

fn key(tokens: [TokenId; 3]) -> u64 {
    let append = |key, token| key << BITS | u64::from(token);
    tokens.into_iter().fold(0, append)
}

impl Gram {
    /// The n-gram of a key.
    pub(crate) fn of(key: u64) -> Self {
        let token = |at: u32| (key >> (at * BITS)) as TokenId & NONE;
        match [token(2), token(1), token(0)] {
            [token, NONE, _] => Self::Token(token),
            [first, second, NONE] => Self::Pair(first, second),
            [first, second, third] => Self::Triple([first, second], third),
        }
    }
}

/// The key of a token alone.
pub(crate) fn token_key(token: TokenId) -> u64 {
    key([token, NONE, NONE])
}

/// Calls `add` with the keys of a document's n-grams, each as often as it occurs, for a table with
/// contexts of up to `order` tokens.
///
/// For order 1 these are all pairs. For order 2 they are all triples and the document's last pair:
/// every other pair begins a triple.
pub(crate) fn each_key(
    order: usize,
    tokens: &[TokenId],
    mut add: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut pairs = tokens.windows(2);
    if order > 1 {
        let mut triples = tokens.windows(3);
        triples.try_for_each(|triple| add(key([triple[0], triple[1], triple[2]])))?;
        pairs = tokens[tokens.len().saturating_sub(2)..].windows(2);
    }
    pairs.try_for_each(|pair| add(key([pair[0], pair[1], NONE])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grams(order: usize, tokens: &[TokenId]) -> Vec<Gram> {
        let mut found = Vec::new();
        let add = |key| {
            found.push(Gram::of(key));
            Ok(())
        };
        each_key(order, tokens, add).unwrap();
        found
    }

    #[test]
    fn keys_say_what_they_count() {
        let largest = NONE - 1;
        assert_eq!(
            grams(2, &[largest, 0, largest, 7]),
            [
                Gram::Triple([largest, 0], largest),
                Gram::Triple([0, largest], 7),
                Gram::Pair(largest, 7)
            ]
        );
        assert_eq!(grams(2, &[3, 4]), [Gram::Pair(3, 4)]);
        assert_eq!(grams(2, &[3]), []);
        assert_eq!(grams(1, &[3, 4, 5]), [Gram::Pair(3, 4), Gram::Pair(4, 5)]);
        assert_eq!(Gram::of(token_key(largest)), Gram::Token(largest));
    }

    #[test]
    fn keys_are_in_the_order_of_tables() {
        let sorted = [
            key([1, 1, 9]),
            key([1, 1, NONE]),
            key([1, 2, 0]),
            key([1, NONE, NONE]),
            key([2, 0, 0]),
        ];
        assert!(sorted.is_sorted());
    }
}
