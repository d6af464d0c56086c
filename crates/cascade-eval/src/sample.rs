//! What a dataset is made of.

use cascade_config::{Content, Message, PromptError, PromptTemplate};
use cascade_core::seed_of;
use serde_json::{Map, Value, json};

use crate::{Error, ErrorKind, Result};

/// The seed of a turn of an input, both counted from 0, by that of the first turn of the first.
pub fn seed_of_turn(first: u64, input: usize, turn: usize) -> u64 {
    seed_of(seed_of(first, input as u64), turn as u64)
}

/// One entry of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What the dataset calls the entry; if it has no name for it, the entry's position in the
    /// dataset, from 0, counted before anything is selected.
    pub id: String,
    /// Subject, category or kind of question, where the dataset has it.
    pub category: Option<String>,
    /// What is asked.
    pub content: Content,
    /// For each turn, the answers that count as right: several if the dataset has several, none
    /// where it has none. Empty if there is no reference at all. A multiple-choice question's is
    /// its letter.
    pub references: Vec<Vec<String>>,
    /// The entry's other fields, in their order and under their own names. A field that only gave
    /// the [`id`](Self::id) is among them, as it stood.
    pub fields: Map<String, Value>,
}

impl Sample {
    /// A sample with nothing beside its content.
    pub fn new(id: impl Into<String>, content: Content) -> Self {
        Self {
            id: id.into(),
            category: None,
            content,
            references: Vec::new(),
            fields: Map::new(),
        }
    }

    /// The prompt that a template makes of the first turn.
    ///
    /// # Errors
    /// If the template does not [accept](PromptTemplate::accepts) the sample.
    pub fn prompt(&self, template: PromptTemplate) -> Result<String> {
        self.prompt_after(template, &[])
    }

    /// The prompt for the turn that follows the given answers, one to each turn before it: see
    /// [`PromptTemplate::apply_after`].
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt), and if all turns are answered.
    pub fn prompt_after(&self, template: PromptTemplate, answers: &[String]) -> Result<String> {
        template
            .apply_after(&self.content, answers)
            .map_err(|error| match error {
                PromptError::NoTurnLeft { template, turns } => Error::new(
                    ErrorKind::Prompt,
                    format!(
                        "the prompt template {template} asks {turns} turns of sample {}, all of which are answered; \
                         several turns of a text need the template vicuna",
                        self.id
                    ),
                ),
                error => error.into(),
            })
    }

    /// What a record of its answer says of it: id, category and references, and the other fields,
    /// which take precedence.
    pub fn carried(&self) -> Map<String, Value> {
        let mut carried = Map::new();
        carried.insert("id".to_owned(), json!(self.id));
        if let Some(category) = &self.category {
            carried.insert("category".to_owned(), json!(category));
        }
        if !self.references.is_empty() {
            carried.insert("references".to_owned(), json!(self.references));
        }
        carried.extend(self.fields.clone());
        carried
    }

    /// The sample as a line of a file of prompts, as `cascade run --prompts` and
    /// [`Dataset::PROMPTS`](crate::Dataset::PROMPTS) read them: with what it
    /// [carries](Self::carried) and, in `prompt` or `messages`, what is asked. Texts, questions,
    /// articles and the beginnings of programs stand there as they are; other content needs a
    /// template, which gives the prompt of the first turn.
    ///
    /// # Errors
    /// Content that the template does not accept, or that needs one.
    pub fn prompt_line(&self, template: Option<PromptTemplate>) -> Result<Value> {
        let mut line = self.carried();
        let prompt = match (template, &self.content) {
            (Some(template), _) => json!(self.prompt(template)?),
            (None, Content::Conversation(messages)) => {
                let messages: Vec<_> = messages.iter().map(Message::object).collect();
                line.insert("messages".to_owned(), json!(messages));
                return Ok(Value::Object(line));
            }
            (None, Content::Text(_) | Content::Question(_) | Content::Article(_)) => {
                match self.content.turns()[..] {
                    [only] => json!(only),
                    ref turns => json!(turns),
                }
            }
            (None, _) => json!(self.prompt(PromptTemplate::Raw)?),
        };
        line.insert("prompt".to_owned(), prompt);
        Ok(Value::Object(line))
    }

    /// The first reference of the first turn.
    pub fn reference(&self) -> Option<&str> {
        self.references.first()?.first().map(String::as_str)
    }
}

/// The letters of the four choices of a question.
const LETTERS: [char; 4] = ['A', 'B', 'C', 'D'];

/// The letter at the beginning of a text that names a choice, and what follows it.
pub(crate) fn first_letter(text: &str) -> Option<(char, &str)> {
    let letter = text.chars().next().filter(|c| LETTERS.contains(c))?;
    Some((letter, &text[1..]))
}

/// The letter of a choice by its place, from 0.
pub(crate) fn letter_at(place: u64) -> Option<char> {
    LETTERS.get(usize::try_from(place).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Turns;

    #[test]
    fn prompt_lines_are_read_as_the_same_prompts() {
        let turns = |texts: &[&str]| {
            let texts = texts.iter().map(|text| (*text).to_owned()).collect();
            Content::Text(Turns::new(texts).unwrap())
        };
        let samples = [
            Sample::new("a", turns(&["one"])),
            Sample::new("b", turns(&["one", "two"])),
            Sample {
                category: Some("sums".to_owned()),
                references: vec![vec!["5".to_owned()]],
                ..Sample::new("c", Content::Question("2 + 3?".to_owned()))
            },
        ];
        let lines = samples.each_ref().map(|sample| {
            let line = sample.prompt_line(None).unwrap();
            format!("{line}\n")
        });
        let file = lines.concat();
        let read = crate::Dataset::PROMPTS
            .parse("prompts.jsonl", file.as_bytes(), crate::Selection::ALL)
            .unwrap();
        for (read, sample) in read.iter().zip(&samples) {
            assert_eq!(read.id, sample.id);
            assert_eq!(read.content.turns(), sample.content.turns());
        }
        assert_eq!(read[2].fields["references"], json!([["5"]]));
        let choices = Content::MultipleChoice {
            question: "2 + 3?".to_owned(),
            choices: ["4", "5", "6", "7"].map(String::from),
        };
        let choice = Sample::new("d", choices);
        let refused = choice.prompt_line(None).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Prompt);
        let line = choice.prompt_line(Some(PromptTemplate::Problem)).unwrap();
        assert!(line["prompt"].as_str().unwrap().contains("5 (B)"), "{line}");
    }

    #[test]
    fn nothing_is_asked_after_the_last_turn() {
        let turns = Turns::new(["a?", "b?", "c?"].map(String::from).into()).unwrap();
        let sample = Sample::new("7", Content::Text(turns));
        let answers = ["a", "b", "c"].map(String::from);
        let over = sample.prompt_after(PromptTemplate::Vicuna, &answers);
        assert_eq!(
            over.unwrap_err().to_string(),
            "the prompt template vicuna asks 3 turns of sample 7, all of which are answered; \
             several turns of a text need the template vicuna"
        );
    }
}
