//! The words that problems are made of.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::{problems, Kind, Split};

/// Problems of each kind whose words are collected: enough for every wording of every template.
const SAMPLE: usize = 4000;

/// The words of a question, by whether problems of the training split have them. Words that begin
/// with a capital (names, first words) and numbers are not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wording<'q> {
    /// How many words problems have.
    pub known: usize,
    /// The words that no problem has, each once, in their order.
    pub unknown: Vec<&'q str>,
}

impl<'q> Wording<'q> {
    /// Looks at the words of a question. The first call takes some milliseconds, in which it makes
    /// problems and collects theirs.
    pub fn of(question: &'q str) -> Self {
        let mut wording = Self::default();
        for word in words(question) {
            match KNOWN.contains(word) {
                true => wording.known += 1,
                false if wording.unknown.contains(&word) => {}
                false => wording.unknown.push(word),
            }
        }
        wording
    }
}

static KNOWN: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let of = |kind| problems(kind, Split::Train, 0).take(SAMPLE);
    let questions = Kind::ALL.into_iter().flat_map(of);
    let texts = questions.flat_map(|problem| {
        let choices = problem.choices.into_iter().flatten();
        choices.chain([problem.question])
    });
    let own = |text: String| words(&text).map(str::to_owned).collect::<Vec<_>>();
    texts.flat_map(own).collect()
});

/// The words that begin with a small letter.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphabetic());
    words.filter(|word| word.starts_with(char::is_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_have_known_words_alone() {
        for kind in Kind::ALL {
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
