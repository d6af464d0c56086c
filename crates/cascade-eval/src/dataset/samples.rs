//! What the entries of each dataset hold: where their ids, categories and references are, and what
//! is asked in them.

use cascade_config::Message;
use serde_json::Value;

use super::entry::{Entry, Object, Record, Result, no_turns, wrong_type};
use crate::sample::{first_letter, letter_at};
use crate::{Content, Dataset, Sample, Turns};

/// The field of a conversation.
const MESSAGES: &str = "messages";

/// The sample of an entry, the one at `position` in the dataset.
pub(super) fn sample(dataset: &Dataset, mut entry: Entry, position: usize) -> Result<Sample> {
    let ids: &[&str] = match dataset {
        Dataset::HumanEval | Dataset::Mbpp => &["task_id"],
        // In FastChat's names or the hub's.
        Dataset::MtBench | Dataset::SpecBench => &["question_id", "prompt_id"],
        _ => &["id"],
    };
    let id = entry.id(ids, position);
    let content = content(dataset, &mut entry)?;
    let references = references(dataset, &mut entry)?;
    let category = match dataset {
        Dataset::Problems(_) => entry.optional_text("template")?,
        Dataset::MtBench | Dataset::SpecBench => entry.optional_text("category")?,
        // Missing where a CSV file has no name, and empty in the hub's auxiliary split.
        Dataset::Mmlu => entry.optional_text("subject")?.filter(|it| !it.is_empty()),
        _ => None,
    };
    Ok(entry.sample(id, category, content, references))
}

fn content(dataset: &Dataset, entry: &mut Entry) -> Result<Content> {
    Ok(match dataset {
        Dataset::Problems(_) => {
            let question = entry.text(&["question"])?;
            if entry.has("choices") {
                multiple_choice(question, entry)?
            } else {
                Content::Question(question)
            }
        }
        Dataset::Gsm8k => Content::Question(entry.text(&["question"])?),
        Dataset::Mmlu => multiple_choice(entry.text(&["question"])?, entry)?,
        Dataset::HumanEval => Content::Code(entry.text(&["prompt"])?),
        Dataset::Mbpp => Content::Task {
            // The sanitized form has `prompt`.
            description: entry.text(&["text", "prompt"])?,
            tests: entry.texts(&["test_list"])?,
        },
        Dataset::Alpaca => Content::Instruction {
            instruction: entry.text(&["instruction"])?,
            input: entry.optional_text("input")?.filter(|it| !it.is_empty()),
        },
        Dataset::MtBench | Dataset::SpecBench => text(entry.texts(&["turns", "prompt"])?, "turns")?,
        Dataset::CnnDailyMail => Content::Article(entry.text(&["article"])?),
        Dataset::Prompts { field } => own_prompt(field, entry)?,
    })
}

/// The references of an entry by turn: worked answers with their final `####` line, the letter of
/// the right choice, solutions as they stand.
fn references(dataset: &Dataset, entry: &mut Entry) -> Result<Vec<Vec<String>>> {
    let field = match dataset {
        Dataset::Problems(_) | Dataset::Gsm8k => return Ok(vec![vec![entry.text(&["answer"])?]]),
        Dataset::Mmlu => return Ok(vec![vec![letter(&entry.required(&["answer"])?.1)?]]),
        Dataset::HumanEval => "canonical_solution",
        Dataset::Mbpp => "code",
        Dataset::Alpaca => "output",
        Dataset::MtBench | Dataset::SpecBench => "reference",
        Dataset::CnnDailyMail => "highlights",
        Dataset::Prompts { .. } => return Ok(Vec::new()),
    };
    entry.references(field)
}

fn text(turns: Vec<String>, field: &str) -> Result<Content> {
    let turns = Turns::new(turns);
    Ok(Content::Text(turns.ok_or_else(|| no_turns(field))?))
}

/// A text or a list of turns in this field; or the messages of a conversation, where there is no
/// text.
fn own_prompt(field: &str, entry: &mut Entry) -> Result<Content> {
    if field == MESSAGES || (!entry.has(field) && entry.has(MESSAGES)) {
        conversation(entry)
    } else {
        text(entry.text_or_texts(&[field])?, field)
    }
}

fn multiple_choice(question: String, entry: &mut Entry) -> Result<Content> {
    let wrong = |choices: Vec<_>| format!("there must be four choices, found {}", choices.len());
    let choices = entry.texts(&["choices"])?.try_into().map_err(wrong)?;
    Ok(Content::MultipleChoice { question, choices })
}

fn letter(answer: &Value) -> Result<String> {
    let letter = match answer {
        Value::String(name) => first_letter(name).filter(|(_, rest)| rest.is_empty()),
        _ => answer.as_u64().and_then(letter_at).zip(Some("")),
    };
    letter.map(|(letter, _)| letter.to_string()).ok_or_else(|| {
        format!(
            "the answer must be A, B, C or D, or in JSON and Parquet a number from 0 to 3, found {answer}; a CSV file \
             must have no header"
        )
    })
}

fn conversation(entry: &mut Entry) -> Result<Content> {
    let (name, value) = entry.required(&[MESSAGES])?;
    let Value::Array(values) = value else {
        return Err(wrong_type(&name, "a list of messages", &value));
    };
    let messages: std::result::Result<Vec<_>, _> =
        values.into_iter().map(Message::from_json).collect();
    let checked = messages.and_then(|messages| {
        Message::check_conversation(&messages)?;
        Ok(messages)
    });
    let messages = checked.map_err(|problem| format!("the field \"messages\": {problem}"))?;
    Ok(Content::Conversation(messages))
}

/// The records that a record stands for: articles of CNN/DailyMail in an object that lists them as
/// `articles` have a record each.
pub(super) fn unfold(dataset: &Dataset, record: Record) -> Vec<Record> {
    let Record { place, object } = &record;
    match object.get("articles") {
        Some(Value::Array(articles))
            if *dataset == Dataset::CnnDailyMail && !object.contains_key("article") =>
        {
            let one = |article: &Value| Record {
                place: *place,
                object: Object::from_iter([("article".to_owned(), article.clone())]),
            };
            articles.iter().map(one).collect()
        }
        _ => vec![record],
    }
}
