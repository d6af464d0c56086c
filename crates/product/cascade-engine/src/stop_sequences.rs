//! Stop sequences: texts that end a generation.

use std::sync::Arc;

use crate::{Error, Result};

/// Texts that end a generation where they first appear, also across token boundaries.
///
/// The match that ends first wins, and of those that end together the longest, so the outcome does
/// not depend on how the text is split into tokens. Cost: time for each byte of the text and each
/// sequence, whatever their lengths; four bytes for each byte of a sequence.
#[derive(Clone, Debug)]
pub struct StopSequences {
    patterns: Arc<[Pattern]>,
}

/// A sequence, searched as Knuth, Morris and Pratt do.
///
/// Why not the crate `aho-corasick`: it finds matches, but does not say how much of one has been
/// read, which is what must be held back.
#[derive(Debug)]
struct Pattern {
    text: String,
    /// For each prefix but the empty one, the longest shorter prefix that it ends with.
    borders: Vec<u32>,
}

impl Pattern {
    fn new(text: String) -> Self {
        let bytes = text.as_bytes();
        let mut borders = vec![0; bytes.len()];
        let mut matched = 0;
        for at in 1..bytes.len() {
            matched = next(bytes, &borders, matched, bytes[at]);
            borders[at] = matched as u32;
        }
        Self { text, borders }
    }

    /// How much of the sequence the text ends with, if it ended with `matched` bytes of it before
    /// `byte`.
    fn next(&self, matched: usize, byte: u8) -> usize {
        next(self.text.as_bytes(), &self.borders, matched, byte)
    }
}

fn next(bytes: &[u8], borders: &[u32], mut matched: usize, byte: u8) -> usize {
    while matched > 0 && bytes.get(matched) != Some(&byte) {
        matched = borders[matched - 1] as usize;
    }
    match bytes[matched] == byte {
        true => matched + 1,
        false => 0,
    }
}

/// The state of one stream of text.
#[derive(Debug)]
pub(crate) struct StopStream {
    stops: StopSequences,
    /// For each sequence, how much of it the text ends with.
    matched: Vec<usize>,
    /// Bytes of text that may be the beginning of a stop sequence.
    held: usize,
}

/// What may be shown after a piece of text was pushed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Released {
    /// Bytes of all text so far held or pushed that are safe to show now.
    pub(crate) bytes: usize,
    /// The stop sequence that follows them, by its index.
    pub(crate) stop: Option<usize>,
}

impl Released {
    /// Releases all of a text, for generations without stop sequences.
    pub(crate) fn all(text: &str) -> Self {
        Self {
            bytes: text.len(),
            stop: None,
        }
    }
}

impl StopSequences {
    /// Prepares the sequences.
    ///
    /// # Errors
    /// [`Error::EmptyStopSequence`]; [`Error::LongStopSequence`] above [`LONGEST_STOP`].
    pub fn new<S: Into<String>>(sequences: impl IntoIterator<Item = S>) -> Result<Self> {
        let pattern = |sequence: S| {
            let text: String = sequence.into();
            match text.len() {
                0 => Err(Error::EmptyStopSequence),
                bytes if bytes > LONGEST_STOP => Err(Error::LongStopSequence { bytes }),
                _ => Ok(Pattern::new(text)),
            }
        };
        Ok(Self {
            patterns: sequences.into_iter().map(pattern).collect::<Result<_>>()?,
        })
    }

    /// Whether there are no sequences.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// A stop sequence by its index.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn get(&self, index: usize) -> &str {
        &self.patterns[index].text
    }

    /// The stop sequences in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|pattern| pattern.text.as_str())
    }

    pub(crate) fn into_stream(self) -> StopStream {
        StopStream {
            matched: vec![0; self.patterns.len()],
            stops: self,
            held: 0,
        }
    }
}

/// The longest stop sequence, in bytes: longer than any answer.
pub const LONGEST_STOP: usize = 1 << 20;

impl StopStream {
    /// Adds the next piece of text.
    pub(crate) fn push(&mut self, piece: &str) -> Released {
        for (at, byte) in piece.bytes().enumerate() {
            if let Some(index) = self.advance(byte) {
                let end = self.held + at + 1;
                return Released {
                    bytes: end - self.stops.get(index).len(),
                    stop: Some(index),
                };
            }
        }
        let all = self.held + piece.len();
        self.held = self.matched.iter().copied().max().unwrap_or(0);
        Released {
            bytes: all - self.held,
            stop: None,
        }
    }

    /// Reads a byte; the longest sequence that ends there, if one does.
    fn advance(&mut self, byte: u8) -> Option<usize> {
        let patterns = &self.stops.patterns;
        let mut found: Option<usize> = None;
        for (index, matched) in self.matched.iter_mut().enumerate() {
            let pattern = &patterns[index];
            *matched = pattern.next(*matched, byte);
            let longer = |other: usize| pattern.text.len() > patterns[other].text.len();
            if *matched == pattern.text.len() && found.is_none_or(longer) {
                found = Some(index);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text shown and stop found when `pieces` come one by one.
    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
        let stops = StopSequences::new(stops.iter().copied()).unwrap();
        let mut stream = stops.into_stream();
        let (mut text, mut shown) = (String::new(), 0);
        for piece in pieces {
            text.push_str(piece);
            let released = stream.push(piece);
            shown += released.bytes;
            if released.stop.is_some() {
                return (text[..shown].to_owned(), released.stop);
            }
        }
        (text[..shown].to_owned(), None)
    }

    #[test]
    fn finds_sequences_across_pieces_and_holds_back_beginnings() {
        assert_eq!(run(&["END"], &["a E", "N", "D b"]), ("a ".into(), Some(0)));
        assert_eq!(run(&["END"], &["a E", "N"]), ("a ".into(), None));
        assert_eq!(run(&["END"], &["a E", "N", "x"]), ("a ENx".into(), None));
        assert_eq!(run(&["aab"], &["a", "a", "a", "b"]), ("a".into(), Some(0)));
        assert_eq!(run(&["ß!"], &["xß", "ß", "!"]), ("xß".into(), Some(0)));
        assert_eq!(run(&[], &["any"]), ("any".into(), None));
    }

    #[test]
    fn refuses_the_empty_sequence() {
        assert!(matches!(
            StopSequences::new(["a", ""]),
            Err(Error::EmptyStopSequence)
        ));
    }

    #[test]
    fn of_two_that_end_together_the_longest_wins() {
        assert_eq!(run(&["b", "ab"], &["xab"]), ("x".into(), Some(1)));
        assert_eq!(run(&["ab", "ab"], &["xab"]), ("x".into(), Some(0)));
    }

    /// Found by comparing prefixes, this took 10¹⁰ steps.
    #[test]
    fn long_sequences_take_linear_time() {
        let stop = "a".repeat(100_000);
        let text = format!("{}b", "a".repeat(99_999));
        let pieces: Vec<&str> = (0..text.len()).map(|at| &text[at..=at]).collect();
        assert_eq!(run(&[&stop], &pieces), (text.clone(), None));
        assert!(matches!(
            StopSequences::new(["a".repeat(LONGEST_STOP + 1)]),
            Err(Error::LongStopSequence { .. })
        ));
    }

    proptest! {
        /// What is held back is the longest end of the text that begins a sequence.
        #[test]
        fn beginnings_are_held_back(
            text in "[ab]{0,30}",
            stops in prop::collection::vec("[ab]{6,9}", 1..4),
        ) {
            prop_assume!(stops.iter().all(|stop| !text.contains(stop)));
            let longest = (0..=text.len())
                .find(|&at| stops.iter().any(|stop| stop.starts_with(&text[at..])));
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            prop_assert_eq!(run(&stops, &[&text]).0, &text[..longest.unwrap_or(0)]);
        }

        /// However the text is split, the same stop sequence is found at the same place, and no
        /// other text is lost.
        #[test]
        fn cuts_do_not_matter(
            text in "[ab]{0,30}",
            stops in prop::collection::vec("[ab]{1,4}", 1..4),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(text.len() + 1)).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let pieces: Vec<&str> = at.windows(2).map(|w| &text[w[0]..w[1]]).collect();
            let letters: Vec<&str> = (0..text.len()).map(|i| &text[i..=i]).collect();
            let (cut, letter) = (run(&stops, &pieces), run(&stops, &letters));
            prop_assert_eq!(cut.1.is_some(), letter.1.is_some());
            prop_assert_eq!(&cut.0, &letter.0);
            prop_assert!(text.starts_with(&cut.0));
        }
    }
}
