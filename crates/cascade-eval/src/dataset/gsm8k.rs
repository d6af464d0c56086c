//! GSM8K: grade-school math questions with worked answers.

use super::jsonl::{self, string};
use crate::{Result, Sample};

/// The questions, with their answers as they stand, calculator annotations and final `####` line included.
pub(super) fn samples<'a>(
    label: &'a str,
    text: &'a str,
) -> impl Iterator<Item = Result<Sample>> + 'a {
    jsonl::samples(label, text, |object| {
        Ok(Sample::Question {
            question: string(&object, "question")?,
            answer: Some(string(&object, "answer")?),
        })
    })
}
