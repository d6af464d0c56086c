//! The words that problems are made of.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::{ProblemKind, Split, problems};

/// How many problems of each kind give their words: enough for every wording of every template.
const SAMPLE: usize = 4000;

/// How many words of a question the problems of the training split have, and which they lack.
/// Names, first words of sentences (all words with a capital) and numbers are not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wording<'q> {
    /// How many words problems have.
    pub known: usize,
    /// The words that no problem has, each once, in their order.
    pub unknown: Vec<&'q str>,
}

impl<'q> Wording<'q> {
    /// Looks at the words of a question. The first call makes problems to collect their words,
    /// which takes some milliseconds.
    pub fn of(question: &'q str) -> Self {
        let mut wording = Self::default();
        for word in words(question) {
            if KNOWN.contains(word) {
                wording.known += 1;
            } else if !wording.unknown.contains(&word) {
                wording.unknown.push(word);
            }
        }
        wording
    }
}

static KNOWN: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let mut known = HashSet::new();
    for kind in ProblemKind::ALL {
        for problem in problems(kind, Split::Train, 0).take(SAMPLE) {
            let texts = problem.choices.into_iter().flatten();
            for text in texts.chain([problem.question]) {
                known.extend(words(&text).map(str::to_owned));
            }
        }
    }
    known
});

/// The words that begin with a small letter.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphabetic())
        .filter(|word| word.starts_with(char::is_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_have_known_words_alone() {
        for kind in ProblemKind::ALL {
            for split in [Split::Validation, Split::Test] {
                for problem in problems(kind, split, 3).take(1000) {
                    let wording = Wording::of(&problem.question);
                    assert_eq!(wording.unknown, [""; 0], "{}", problem.question);
                    assert!(wording.known > 0, "{}", problem.question);
                }
            }
        }
    }

    #[test]
    fn other_questions_have_unknown_words() {
        let wording = Wording::of("Who wrote Faust, and who wrote Hamlet?");
        assert_eq!(wording.unknown, ["wrote"]);
        assert_eq!(Wording::of("Hello, World 42!"), Wording::default());
    }
}
