//! Stop sequences: texts that end a generation.

use aho_corasick::AhoCorasick;

use crate::{Error, Result};

/// Texts that end a generation where they first appear, also across token boundaries.
///
/// The match that ends first wins, so the outcome does not depend on how the text is split into
/// tokens.
#[derive(Clone, Debug)]
pub struct StopSequences {
    search: AhoCorasick,
    sequences: Vec<String>,
}

/// The state of one stream of text.
#[derive(Debug)]
pub(crate) struct StopStream {
    stops: StopSequences,
    /// Text that may be the beginning of a stop sequence.
    held: String,
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
    /// Compiles the sequences.
    ///
    /// # Errors
    /// [`Error::EmptyStopSequence`]; [`Error::StopSequences`] if they cannot be compiled, as when
    /// there are too many.
    pub fn new<S: Into<String>>(sequences: impl IntoIterator<Item = S>) -> Result<Self> {
        let sequences: Vec<String> = sequences.into_iter().map(Into::into).collect();
        if sequences.iter().any(String::is_empty) {
            return Err(Error::EmptyStopSequence);
        }
        let search =
            AhoCorasick::new(&sequences).map_err(|error| Error::StopSequences(Box::new(error)))?;
        Ok(Self { search, sequences })
    }

    /// Whether there are no sequences.
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// A stop sequence by its index.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn get(&self, index: usize) -> &str {
        &self.sequences[index]
    }

    /// The stop sequences in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.sequences.iter().map(String::as_str)
    }

    pub(crate) fn into_stream(self) -> StopStream {
        StopStream {
            stops: self,
            held: String::new(),
        }
    }

    /// Length of the longest suffix of `text` that is a proper prefix of a stop sequence.
    fn partial_match(&self, text: &str) -> usize {
        let longest_in = |sequence: &String| {
            let longest = (sequence.len() - 1).min(text.len());
            (1..=longest)
                .rev()
                .find(|&n| text.as_bytes().ends_with(&sequence.as_bytes()[..n]))
                .unwrap_or(0)
        };
        self.sequences.iter().map(longest_in).max().unwrap_or(0)
    }
}

impl StopStream {
    /// Adds the next piece of text.
    pub(crate) fn push(&mut self, piece: &str) -> Released {
        self.held.push_str(piece);
        if let Some(found) = self.stops.search.find(&self.held) {
            return Released {
                bytes: found.start(),
                stop: Some(found.pattern().as_usize()),
            };
        }
        let bytes = self.held.len() - self.stops.partial_match(&self.held);
        self.held.drain(..bytes);
        Released { bytes, stop: None }
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

    proptest! {
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
