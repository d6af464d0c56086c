//! Right and wrong answers.

use cascade_config::Content;

use crate::Sample;
use crate::sample::first_letter;

/// What a worked answer writes before its result, in GSM8K and in our own problems.
const RESULT: &str = "####";

/// The known result of a question, which an answer is right or wrong by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Solution {
    /// A number in its shortest form: `18`, `-2.5`.
    Number(String),
    /// One of four choices.
    Letter(char),
}

/// How an answer compares with a [`Solution`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The answer gives the known result.
    Right,
    /// The answer gives another result.
    Wrong {
        /// The result that it gives.
        found: String,
    },
    /// The answer gives no result.
    Missing,
}

impl Mark {
    /// Whether the answer is right.
    pub fn is_right(&self) -> bool {
        *self == Self::Right
    }
}

impl Sample {
    /// The known result, if the sample has one: the number or letter after `####` of its reference
    /// (GSM8K, our own problems), or the letter of a multiple-choice question (MMLU).
    pub fn solution(&self) -> Option<Solution> {
        let reference = self.reference()?;
        let result = after_mark(reference);
        match (&self.content, result) {
            (Content::Question(_), Some(result)) => first_number(result).map(Solution::Number),
            (Content::MultipleChoice { .. }, result) => {
                leading_letter(result.unwrap_or(reference)).map(Solution::Letter)
            }
            _ => None,
        }
    }
}

impl Solution {
    /// Compares the result that an answer gives: what follows its last `####`, or without one its
    /// last number; of multiple choice the letter after `####`, or else the last letter in
    /// parentheses, after `answer is` or `answer:`, or at the beginning and alone. These are the
    /// strict and the flexible match of the LM Evaluation Harness in one, so that models are marked
    /// that were not taught to write `####`.
    ///
    /// Numbers are compared as numbers: `1,800.0`, `$1800` and `1800` are equal.
    pub fn mark(&self, answer: &str) -> Mark {
        let (found, right) = match self {
            Self::Number(known) => {
                let found = match after_mark(answer) {
                    Some(result) => first_number(result),
                    None => last_number(answer),
                };
                let right = found.as_ref() == Some(known);
                (found, right)
            }
            Self::Letter(known) => {
                let found = match after_mark(answer) {
                    Some(result) => leading_letter(result),
                    None => letter(answer),
                };
                (
                    found.map(|letter| letter.to_string()),
                    found == Some(*known),
                )
            }
        };
        match found {
            None => Mark::Missing,
            Some(_) if right => Mark::Right,
            Some(found) => Mark::Wrong { found },
        }
    }
}

impl std::fmt::Display for Solution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => f.write_str(number),
            Self::Letter(letter) => letter.fmt(f),
        }
    }
}

fn after_mark(text: &str) -> Option<&str> {
    text.rsplit_once(RESULT).map(|(_, result)| result)
}

fn first_number(text: &str) -> Option<String> {
    numbers(text).next()
}

fn last_number(text: &str) -> Option<String> {
    numbers(text).last()
}

/// The numbers of a text, each in its shortest form.
fn numbers(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let begin = at + text[at..].find(|c: char| c.is_ascii_digit())?;
        let end = begin + number_length(&text[begin..]);
        at = end;
        let negative = is_negative(&text[..begin]);
        Some(shortest(&text[begin..end], negative))
    })
}

/// A minus sign directly before a number, or before its `$`, that is not one between two numbers.
fn is_negative(before: &str) -> bool {
    let before = before.strip_suffix('$').unwrap_or(before);
    let Some(before) = before.strip_suffix(['-', '−']) else {
        return false;
    };
    !before.ends_with(|c: char| c.is_alphanumeric() || c == ')')
}

/// Bytes of the digits at the beginning, with commas between groups of three and a decimal point.
fn number_length(text: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(text);
    while text[length..].starts_with(',') && digits(&text[length + 1..]) == 3 {
        length += 4;
    }
    match text[length..].strip_prefix('.').map(digits) {
        None | Some(0) => length,
        Some(decimals) => length + 1 + decimals,
    }
}

fn shortest(number: &str, negative: bool) -> String {
    let number = number.replace(',', "");
    let (whole, decimals) = number.split_once('.').unwrap_or((&number, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let decimals = decimals.trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    let sign = if negative && (whole != "0" || !decimals.is_empty()) {
        "-"
    } else {
        ""
    };
    format!("{sign}{whole}{point}{decimals}")
}

/// `C`, `(C)` or `C) 12` at the beginning.
fn leading_letter(text: &str) -> Option<char> {
    let text = text.trim_start().trim_start_matches('(');
    let (letter, rest) = first_letter(text)?;
    (!rest.starts_with(char::is_alphanumeric)).then_some(letter)
}

/// The choice that an answer without `####` makes.
fn letter(answer: &str) -> Option<char> {
    let named = answer.match_indices('(').filter_map(|(at, _)| {
        let rest = &answer[at + 1..];
        let letter = leading_letter(rest)?;
        let closed = rest.get(1..).is_some_and(|rest| rest.starts_with(')'));
        closed.then_some((at, letter))
    });
    let lower = answer.to_ascii_lowercase();
    let said = ["answer is", "answer:"].into_iter().flat_map(|words| {
        let found = lower.match_indices(words);
        found.filter_map(move |(at, _)| Some((at, leading_letter(&answer[at + words.len()..])?)))
    });
    let last = named
        .chain(said)
        .max_by_key(|(at, _)| *at)
        .map(|(_, letter)| letter);
    last.or_else(|| alone(answer))
}

/// A letter with nothing, or a sign, behind it: "A train" chooses nothing.
fn alone(answer: &str) -> Option<char> {
    let letter = leading_letter(answer)?;
    let rest = answer.trim_start().get(1..)?;
    let closed = rest.trim().is_empty() || rest.starts_with(['.', ')', ':', ',']);
    closed.then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(answer: &str) -> Mark {
        Solution::Number("1800".to_owned()).mark(answer)
    }

    fn choice(answer: &str) -> Mark {
        Solution::Letter('C').mark(answer)
    }

    fn wrong(found: &str) -> Mark {
        Mark::Wrong {
            found: found.to_owned(),
        }
    }

    #[test]
    fn numbers_are_found_and_compared_as_numbers() {
        for right in [
            "6 * 300 = $1800. #### 1800",
            "#### $1,800.00",
            "#### 7 #### 01800",
            "#### 1800 dollars, not 5",
            "She earns 6 * 300 = 1800 dollars.",
            "x-1800",
        ] {
            assert_eq!(number(right), Mark::Right, "{right}");
        }
        assert_eq!(number("1800 it is. #### 180"), wrong("180"));
        assert_eq!(number("#### -1800"), wrong("-1800"));
        assert_eq!(number("#### -$1,800.5"), wrong("-1800.5"));
        assert_eq!(number("1,80 0.25.3"), wrong("3"));
        assert_eq!(number("minus −0.0"), wrong("0"));
        assert_eq!(number("1800 ####"), Mark::Missing);
        assert_eq!(number("none"), Mark::Missing);
        let long = "9".repeat(400);
        assert_eq!(number(&long), wrong(&long));
    }

    #[test]
    fn letters_are_found_and_articles_are_not() {
        for right in [
            "Only roses are flowers. #### C",
            "####(C)",
            "(A) is wrong, so it is (C).",
            "The answer is C.",
            "Not (B). The correct Answer: (C) 12",
            "C",
            " C) roses",
        ] {
            assert_eq!(choice(right), Mark::Right, "{right}");
        }
        assert_eq!(choice("#### D"), wrong("D"));
        assert_eq!(choice("(C) or (D)"), wrong("D"));
        for missing in [
            "",
            "A train leaves.",
            "#### Cat",
            "(Carl)",
            "ćC",
            "#### ",
            "É(",
        ] {
            assert_eq!(choice(missing), Mark::Missing, "{missing}");
        }
    }

    #[test]
    fn samples_know_their_solution() {
        let sample = |content, reference: &str| Sample {
            references: vec![vec![reference.to_owned()]],
            ..Sample::new("0", content)
        };
        let question = || Content::Question("How many?".to_owned());
        let choices = || Content::MultipleChoice {
            question: "Which?".to_owned(),
            choices: ["1", "2", "3", "4"].map(str::to_owned),
        };
        let solution = |sample: Sample| sample.solution().map(|s| s.to_string());
        assert_eq!(
            solution(sample(question(), "2 + 3 = 5\n#### 1,005")).as_deref(),
            Some("1005")
        );
        assert_eq!(solution(sample(question(), "five")), None);
        assert_eq!(solution(sample(choices(), "B")).as_deref(), Some("B"));
        assert_eq!(
            solution(sample(choices(), "So it is 2. #### B")).as_deref(),
            Some("B")
        );
        assert_eq!(solution(sample(Content::Text("a".into()), "#### 5")), None);
        assert_eq!(solution(Sample::new("0", question())), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[-−$#(), .0-9A-Eanswer:is\\n]{0,60}|.*") {
            let _ = number(&text);
            let _ = choice(&text);
        }
    }
}
