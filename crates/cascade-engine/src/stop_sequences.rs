//! Stop sequences: texts that end a generation.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;

use crate::{Error, Result};

/// The most bytes that stop sequences have in all: longer than any answer.
pub const LONGEST_STOP: usize = 1 << 20;

/// Texts that end a generation where they first appear, also across token boundaries.
///
/// The match that ends first wins, and of those that end together the longest, so the outcome does
/// not depend on how the text is split into tokens. Cost: constant time for each byte of the text,
/// however many sequences there are; some 50 bytes for each byte of a sequence.
#[derive(Clone)]
pub struct StopSequences {
    texts: Arc<[String]>,
    automaton: Arc<PrefixAutomaton>,
}

/// An Aho-Corasick automaton that also knows how much of a sequence has been read.
struct PrefixAutomaton {
    automaton: NFA,
    /// Bytes of the prefix that a state stands for; the start is not listed.
    depths: HashMap<StateID, usize>,
    start: StateID,
}

impl PrefixAutomaton {
    fn new(texts: &[String]) -> Result<Self> {
        let bytes = texts.iter().map(String::len).sum();
        let too_long = || Error::LongStopSequences { bytes };
        if bytes > LONGEST_STOP {
            return Err(too_long());
        }
        let automaton = NFA::new(texts).map_err(|_| too_long())?;
        let start = automaton
            .start_state(Anchored::No)
            .map_err(|_| too_long())?;
        let mut depths = HashMap::with_capacity(bytes);
        for text in texts {
            let mut state = start;
            for (at, byte) in text.bytes().enumerate() {
                state = automaton.next_state(Anchored::No, state, byte);
                depths.insert(state, at + 1);
            }
        }
        Ok(Self {
            automaton,
            depths,
            start,
        })
    }

    /// The longest sequence that ends in a state, if one does; of equal ones the first.
    fn sequence_at(&self, state: StateID, texts: &[String]) -> Option<usize> {
        if !self.automaton.is_match(state) {
            return None;
        }
        let matches = 0..self.automaton.match_len(state);
        matches
            .map(|at| self.automaton.match_pattern(state, at).as_usize())
            .min_by_key(|&index| (std::cmp::Reverse(texts[index].len()), index))
    }
}

/// The sequences.
impl fmt::Debug for StopSequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The state of one stream of text.
#[derive(Debug)]
pub(crate) struct StopStream {
    stops: StopSequences,
    state: StateID,
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
    /// [`Error::EmptyStopSequence`]; [`Error::LongStopSequences`] above [`LONGEST_STOP`] in all.
    pub fn new<S: Into<String>>(sequences: impl IntoIterator<Item = S>) -> Result<Self> {
        let texts: Arc<[String]> = sequences.into_iter().map(Into::into).collect();
        if texts.iter().any(String::is_empty) {
            return Err(Error::EmptyStopSequence);
        }
        let automaton = Arc::new(PrefixAutomaton::new(&texts)?);
        Ok(Self { texts, automaton })
    }

    /// Whether there are no sequences.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// A stop sequence by its index.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn get(&self, index: usize) -> &str {
        &self.texts[index]
    }

    /// The stop sequences in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    pub(crate) fn into_stream(self) -> StopStream {
        StopStream {
            state: self.automaton.start,
            stops: self,
            held: 0,
        }
    }
}

impl StopStream {
    /// A stop sequence by its index.
    pub(crate) fn sequence(&self, index: usize) -> &str {
        self.stops.get(index)
    }

    /// Adds the next piece of text.
    pub(crate) fn push(&mut self, piece: &str) -> Released {
        let StopSequences { texts, automaton } = &self.stops;
        for (at, byte) in piece.bytes().enumerate() {
            self.state = automaton
                .automaton
                .next_state(Anchored::No, self.state, byte);
            if let Some(index) = automaton.sequence_at(self.state, texts) {
                let end = self.held + at + 1;
                return Released {
                    bytes: end - texts[index].len(),
                    stop: Some(index),
                };
            }
        }
        let all = self.held + piece.len();
        self.held = automaton.depths.get(&self.state).copied().unwrap_or(0);
        Released {
            bytes: all - self.held,
            stop: None,
        }
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
            StopSequences::new([
                "a".repeat(LONGEST_STOP / 2),
                "b".repeat(LONGEST_STOP / 2 + 1)
            ]),
            Err(Error::LongStopSequences { .. })
        ));
    }

    proptest! {
        /// The first end of a sequence and the longest one there, as found by looking everywhere.
        #[test]
        fn finds_what_brute_force_finds(
            text in "[abc]{0,40}",
            stops in prop::collection::vec("[abc]{1,5}", 1..6),
        ) {
            let ends = (0..=text.len()).find_map(|end| {
                let ending = stops.iter().filter(|stop| text[..end].ends_with(*stop));
                ending.map(String::len).max().map(|length| end - length)
            });
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let (shown, stop) = run(&stops, &[&text]);
            prop_assert_eq!(stop.is_some(), ends.is_some());
            if let (Some(stop), Some(begin)) = (stop, ends) {
                prop_assert_eq!(&shown, &text[..begin]);
                let first = stops.iter().position(|other| *other == stops[stop]);
                prop_assert_eq!(first, Some(stop));
            }
        }

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
