//! Traces from recorded answers of Spec-Bench (or MT-bench, whose files have the same form).
//!
//! An answer file has one JSON object per line: `question_id`, and in `choices[0]` the texts of all `turns` and, for each, how
//! many `new_tokens` the target wrote. The texts are tokenized within Vicuna's conversation, turn by turn, so prompts are what
//! the target read and outputs are what it wrote, as far as a text tells. The target is decoder-only.

use cascade_core::{TextCodec, TokenId};
use serde::Deserialize;

use super::{Error, Finish, Record, Result};
use crate::{PromptTemplate, Sample};

/// What a text becomes a record with.
#[derive(Clone, Copy)]
pub struct Import<'a> {
    /// The target's tokenizer, which writes the beginning of a text and `</s>` as the target reads them.
    pub codec: &'a dyn TextCodec,
    /// The token that `</s>` is.
    pub eos: TokenId,
    /// Where the recording stopped: an answer of so many tokens has no end of its own.
    pub max_new_tokens: usize,
}

/// The answers to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The question's id.
    pub question: String,
    /// What the answer file calls the target.
    pub model: Option<String>,
    /// Text of each turn.
    pub turns: Vec<String>,
    /// Tokens of each turn as they were counted by whoever recorded; empty if nobody did.
    pub new_tokens: Vec<usize>,
}

#[derive(Deserialize)]
struct Line {
    question_id: serde_json::Value,
    model_id: Option<String>,
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    turns: Vec<String>,
    #[serde(default)]
    new_tokens: Vec<usize>,
}

impl Answers {
    /// Reads an answer file that messages call `label`.
    ///
    /// # Errors
    /// [`Error::Line`] for the first line that holds no answer; [`Error::NoRecords`] if none does.
    pub fn parse(label: &str, file: &str) -> Result<Vec<Self>> {
        let lines = file.lines().enumerate();
        let lines = lines.filter(|(_, text)| !text.trim().is_empty());
        let answers = lines.map(|(index, text)| {
            Self::of_line(text).map_err(|problem| Error::Line {
                label: label.to_owned(),
                line: index + 1,
                problem,
            })
        });
        let answers = answers.collect::<Result<Vec<_>>>()?;
        match answers.is_empty() {
            true => Err(Error::NoRecords {
                label: label.to_owned(),
            }),
            false => Ok(answers),
        }
    }

    fn of_line(text: &str) -> std::result::Result<Self, String> {
        let line: Line = serde_json::from_str(text)
            .map_err(|error| format!("not an answer of Spec-Bench: {error}"))?;
        let question = match line.question_id {
            serde_json::Value::String(id) => id,
            serde_json::Value::Number(id) => id.to_string(),
            other => {
                return Err(format!(
                    "\"question_id\" is {other}; give a number or a string"
                ))
            }
        };
        let choice = line.choices.into_iter().next();
        let choice = choice.ok_or("\"choices\" is empty; the answer stands in the first")?;
        let (turns, counts) = (choice.turns.len(), choice.new_tokens.len());
        if counts != 0 && counts != turns {
            return Err(format!("{turns} turns, but {counts} numbers of new tokens"));
        }
        Ok(Self {
            question,
            model: line.model_id,
            turns: choice.turns,
            new_tokens: choice.new_tokens,
        })
    }
}

impl Import<'_> {
    /// The records of one conversation, one for each turn that was answered.
    ///
    /// # Errors
    /// [`Error::Template`] if there are more answers than turns; [`Error::Unstable`]; [`Error::Codec`].
    pub fn records(&self, question: &Sample, answers: &Answers) -> Result<Vec<Record>> {
        (0..answers.turns.len())
            .map(|turn| self.record(question, answers, turn))
            .collect()
    }

    fn record(&self, question: &Sample, answers: &Answers, turn: usize) -> Result<Record> {
        let text = PromptTemplate::Vicuna.apply_after(question, &answers.turns[..turn])?;
        let prompt = self.tokens(&text)?;
        let whole = self.tokens(&format!("{text} {}</s>", answers.turns[turn]))?;
        let output = whole.strip_prefix(prompt.as_slice());
        let output = output.and_then(|output| output.strip_suffix(&[self.eos]));
        let unstable = || Error::Unstable {
            id: question.id.clone(),
            turn: turn + 1,
        };
        let mut output = output.ok_or_else(unstable)?.to_vec();
        let cut = answers.new_tokens.get(turn);
        let finish = match cut.is_some_and(|&count| count >= self.max_new_tokens) {
            true => Finish::Length,
            false => {
                output.push(self.eos);
                Finish::Eos
            }
        };
        Ok(Record {
            id: question.id.clone(),
            category: question.category.clone(),
            turn: turn + 1,
            source: Vec::new(),
            context: prompt,
            output,
            gaps: None,
            finish,
        })
    }

    fn tokens(&self, text: &str) -> Result<Vec<TokenId>> {
        self.codec.encode(text).map_err(Error::Codec)
    }
}
