//! Leaves out sentences that were read before.

use sha2::{Digest, Sha256};
use unicode_segmentation::UnicodeSegmentation;

/// Sets of remembered sentences: a sentence belongs to one of them.
const SETS: usize = 1 << 22;
/// Sentences remembered of a set. One more, and the oldest is forgotten.
const WAYS: usize = 4;
/// What remembering takes, in bytes.
pub(crate) const MEMORY: u64 = (SETS * WAYS * size_of::<u64>()) as u64;

/// The sentences of the documents so far: of all, until there are millions, then of the latest
/// ones. What is remembered depends on the documents alone, and on their order.
pub(crate) struct Sentences {
    /// Fingerprints; 0 where there is none.
    sets: Vec<[u64; WAYS]>,
    /// Sentences that were left out.
    pub(crate) repeated: u64,
}

impl Sentences {
    pub(crate) fn new() -> Self {
        Self {
            sets: vec![[0; WAYS]; SETS],
            repeated: 0,
        }
    }

    /// The parts of a document that are left when every sentence is left out that a document before
    /// or this one had already; without white space around them. Sentences end as Unicode says (UAX
    /// #29), and at the ends of lines.
    pub(crate) fn unique(&mut self, text: &str) -> Vec<String> {
        let mut parts = vec![String::new()];
        for sentence in text.split_sentence_bounds() {
            if !self.is_new(sentence.trim()) {
                self.repeated += 1;
                parts.push(String::new());
            } else if let Some(part) = parts.last_mut() {
                part.push_str(sentence);
            }
        }
        let parts = parts.iter().map(|part| part.trim());
        parts
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Whether a sentence has not been seen, after which it has. What is empty is always new.
    fn is_new(&mut self, sentence: &str) -> bool {
        if sentence.is_empty() {
            return true;
        }
        let hash = Sha256::digest(sentence.as_bytes());
        let number = |at: usize| {
            let bytes = hash[at..at + 8].try_into().unwrap_or_default();
            u64::from_le_bytes(bytes)
        };
        let fingerprint = number(0).max(1);
        let set = &mut self.sets[number(8) as usize % SETS];
        if set.contains(&fingerprint) {
            return false;
        }
        set.rotate_right(1);
        set[0] = fingerprint;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_is_left_out_and_parts_the_text() {
        let mut sentences = Sentences::new();
        let first = "One is here. Two is here.\nThree\n";
        assert_eq!(sentences.unique(first), [first.trim_end()]);
        assert_eq!(
            sentences.unique("Zero. Two is here.  Four is here. Four is here. Five. Three"),
            ["Zero.", "Four is here.", "Five."]
        );
        assert_eq!(sentences.repeated, 3);
        assert!(sentences.unique("\n \n").is_empty());
        assert!(sentences.unique("").is_empty());
        assert!(sentences.unique("Zero.").is_empty());
    }
}
