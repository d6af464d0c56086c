//! Identifies the vocabulary that token ids belong to.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::TokenId;

/// Identity of a vocabulary: equal fingerprints mean that every id stands for the same piece of
/// text.
///
/// It is the SHA-256 of all (id, piece) pairs in the order of ids. It does not depend on how a
/// tokenizer splits text: tables of token ids stay valid under another normalizer or prefix rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Fingerprint of a vocabulary, given in any order.
    pub fn of_vocabulary<S: AsRef<str>>(pieces: impl IntoIterator<Item = (TokenId, S)>) -> Self {
        let mut pieces: Vec<(TokenId, S)> = pieces.into_iter().collect();
        pieces.sort_by(|a, b| (a.0, a.1.as_ref()).cmp(&(b.0, b.1.as_ref())));
        let mut hash = Sha256::new();
        for (id, piece) in &pieces {
            let piece = piece.as_ref().as_bytes();
            hash.update(id.to_le_bytes());
            hash.update((piece.len() as u64).to_le_bytes());
            hash.update(piece);
        }
        let hex: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        Self(format!("sha256:{hex}"))
    }

    /// A fingerprint read from a file, as written by [`Display`](fmt::Display). Any text is
    /// accepted; one that is not a fingerprint does not equal any computed one.
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The whole, or as many characters of it as a precision says.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depends_on_pairs_and_not_on_their_order() {
        let of =
            |pairs: &[(TokenId, &'static str)]| Fingerprint::of_vocabulary(pairs.iter().copied());
        assert_eq!(of(&[(0, "a"), (1, "b")]), of(&[(1, "b"), (0, "a")]));
        assert_ne!(of(&[(0, "a"), (1, "b")]), of(&[(0, "b"), (1, "a")]));
        assert_ne!(of(&[(0, "ab"), (1, "c")]), of(&[(0, "a"), (1, "bc")]));
        let stored = of(&[(0, "a")]).to_string();
        assert!(stored.starts_with("sha256:") && stored.len() == 7 + 64);
        assert_eq!(Fingerprint::from_stored(stored), of(&[(0, "a")]));
        assert_eq!(format!("{:.8}", of(&[(0, "a")])).len(), 8, "its beginning");
    }
}
