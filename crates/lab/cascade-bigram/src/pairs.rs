//! Pairs of tokens as keys of sorted lists.

use cascade_core::TokenId;

/// In place of the successor: the count is of the token alone. Vocabularies are too small for a
/// token to have this id.
pub(crate) const ALONE: TokenId = TokenId::MAX;

/// A pair, or a token alone, as an integer whose order is the order of files: by token, by
/// successor, the token alone last.
pub(crate) fn key(token: TokenId, successor: TokenId) -> u64 {
    u64::from(token) << 32 | u64::from(successor)
}

/// The token and the successor of a key.
pub(crate) fn parts(key: u64) -> (TokenId, TokenId) {
    ((key >> 32) as TokenId, key as TokenId)
}

/// A key and how often it was counted.
pub(crate) type Count = (u64, u64);
