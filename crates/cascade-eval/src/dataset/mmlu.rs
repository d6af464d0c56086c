//! MMLU: multiple-choice questions on 57 subjects.

use serde_json::Value;

use super::entry::{Entry, Result};
use crate::{Content, Letter, Sample};

/// The reference is the letter of the right choice.
pub(super) fn sample(mut entry: Entry, position: usize) -> Result<Sample> {
    let id = entry.id(&["id"], position);
    let question = entry.text(&["question"])?;
    let choices = entry.texts(&["choices"])?;
    let choices = four(choices)?;
    let answer = letter(&entry.required(&["answer"])?.1)?;
    // Missing where a CSV file has no name, and empty in the hub's auxiliary split.
    let subject = entry.optional_text("subject")?;
    let subject = subject.filter(|subject| !subject.is_empty());
    let content = Content::MultipleChoice { question, choices };
    let references = vec![vec![answer.to_string()]];
    Ok(entry.sample(id, subject, content, references))
}

/// The choices of a question.
pub(super) fn four(choices: Vec<String>) -> Result<[String; 4]> {
    let wrong = |choices: Vec<_>| format!("there must be four choices, found {}", choices.len());
    choices.try_into().map_err(wrong)
}

fn letter(answer: &Value) -> Result<Letter> {
    let letter = match answer {
        Value::String(name) => Letter::from_name(name),
        _ => answer
            .as_u64()
            .and_then(|index| Letter::ALL.get(usize::try_from(index).ok()?).copied()),
    };
    letter.ok_or_else(|| {
        format!(
            "the answer must be A, B, C or D, or in JSON and Parquet a number from 0 to 3, found {answer}; a CSV file \
             must have no header"
        )
    })
}
