//! Whether answers are right, and how they end.

use std::fmt;

use crate::Mark;
use cascade_core::TokenId;
use serde::{Deserialize, Serialize};

/// The longest pattern that a loop repeats, in tokens.
const LONGEST_PATTERN: usize = 32;

/// Tokens at the end of an answer that must be a repeated pattern.
const SHORTEST_LOOP: usize = 40;

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The model ended it.
    Own,
    /// The answer reached the length limit, or the model's context was full.
    Limit,
    /// Its last 40 tokens, or more, repeat a pattern of 32 tokens or less at least twice after its
    /// first time.
    Loop,
}

impl Ending {
    /// The ending of an answer, which `is_complete` if the model ended it.
    pub fn of(tokens: &[TokenId], is_complete: bool) -> Self {
        match (ends_in_loop(tokens), is_complete) {
            (true, _) => Self::Loop,
            (false, true) => Self::Own,
            (false, false) => Self::Limit,
        }
    }
}

fn ends_in_loop(tokens: &[TokenId]) -> bool {
    (1..=LONGEST_PATTERN).any(|period| {
        let last = tokens.iter().rev();
        let same = last
            .clone()
            .skip(period)
            .zip(last)
            .take_while(|(earlier, later)| earlier == later)
            .count();
        same >= 2 * period && same + period >= SHORTEST_LOOP
    })
}

/// How many answers end in which way. Answers that do not end are artefacts of a model, and
/// drafters gain in them what they gain nowhere else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endings {
    /// All answers.
    pub answers: usize,
    /// Answers that end in a loop.
    pub loops: usize,
    /// Others at the length limit.
    pub at_limit: usize,
}

impl Endings {
    /// Counts an answer.
    pub fn add(&mut self, ending: Ending) {
        self.answers += 1;
        self.loops += usize::from(ending == Ending::Loop);
        self.at_limit += usize::from(ending == Ending::Limit);
    }
}

impl FromIterator<Ending> for Endings {
    fn from_iter<I: IntoIterator<Item = Ending>>(endings: I) -> Self {
        let mut sum = Self::default();
        endings.into_iter().for_each(|ending| sum.add(ending));
        sum
    }
}

/// `of 200 answers, 83 end in a loop and 5 others at the length limit`
impl fmt::Display for Endings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "of {} answers, {} end in a loop and {} others at the length limit",
            self.answers, self.loops, self.at_limit
        )
    }
}

/// Marks of answers whose results are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// All answers.
    pub answers: usize,
    /// Answers that give the known result.
    pub right: usize,
    /// Answers that give no result.
    pub missing: usize,
}

impl Marks {
    /// Counts an answer.
    pub fn add(&mut self, mark: &Mark) {
        self.answers += 1;
        self.right += usize::from(mark.is_right());
        self.missing += usize::from(*mark == Mark::Missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(pattern: &[TokenId], tokens: usize) -> Vec<TokenId> {
        let text = (100..120).chain(pattern.iter().copied().cycle());
        text.take(20 + tokens).collect()
    }

    #[test]
    fn loops_are_found_and_repetition_in_passing_is_not() {
        let long: Vec<TokenId> = (0..20).collect();
        assert_eq!(Ending::of(&repeated(&[7], 40), false), Ending::Loop);
        assert_eq!(Ending::of(&repeated(&[7], 38), false), Ending::Limit);
        assert_eq!(Ending::of(&repeated(&[7], 38), true), Ending::Own);
        assert_eq!(Ending::of(&repeated(&long, 60), false), Ending::Loop);
        assert_eq!(Ending::of(&repeated(&long, 59), false), Ending::Limit);
        let mut passing = repeated(&[7, 8], 60);
        passing.push(1);
        assert_eq!(Ending::of(&passing, true), Ending::Own);
        assert_eq!(Ending::of(&[], false), Ending::Limit);
    }

    #[test]
    fn endings_are_counted() {
        let all = [Ending::Own, Ending::Loop, Ending::Limit, Ending::Loop];
        assert_eq!(
            all.into_iter().collect::<Endings>().to_string(),
            "of 4 answers, 2 end in a loop and 1 others at the length limit"
        );
    }
}
