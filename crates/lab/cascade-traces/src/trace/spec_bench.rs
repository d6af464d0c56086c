//! Traces from recorded answers of Spec-Bench (or MT-bench, whose files have the same form).
//!
//! An answer file has one JSON object per line: `question_id`, and in `choices[0]` the texts of all
//! `turns` and, for each, the number of `new_tokens` that the target generated. The texts are
//! tokenized within Vicuna's conversation template, turn by turn, so prompts and outputs are the
//! target's, as far as the text determines them. The target is decoder-only.
//!
//! A text may end in `</s>`, as some programs write it: that is the end of the answer, and not a
//! part of it. Anywhere else `</s>` is an error.

use std::collections::BTreeMap;

use cascade_core::{TextCodec, TokenId};
use cascade_eval::{PromptTemplate, Sample};
use serde::Deserialize;

use super::{Finish, Header, Record, Trace};
use crate::{Error, ErrorKind, Result, error};

/// The largest file of answers that is read; Spec-Bench's take 1 MB.
pub const LARGEST_ANSWERS: u64 = 1 << 30;

/// What is needed to convert texts to records.
#[derive(Clone, Copy)]
pub struct Import<'a> {
    /// The target's tokenizer, which encodes the beginning of a text and `</s>` as the target
    /// expects them.
    pub codec: &'a dyn TextCodec,
    /// The token of `</s>`.
    pub eos: TokenId,
    /// The recording's token limit: an answer of this many tokens was truncated, unless it ends in
    /// `</s>`.
    pub max_new_tokens: usize,
}

/// The tokens of a prompt and of what is said after it.
type PromptAndOutput = (Vec<TokenId>, Vec<TokenId>);

/// The text of the end token in Vicuna's conversation template.
const END: &str = "</s>";

/// The answers to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Where they are in the file: the number of the line, from 1.
    pub line: usize,
    /// The question's id.
    pub question: String,
    /// Name of the target in the answer file.
    pub model: Option<String>,
    /// Text of each turn.
    pub turns: Vec<String>,
    /// Number of tokens of each turn, as counted by the recording program; empty if it did not.
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
    /// Parses an answer file. Messages refer to it as `label`.
    ///
    /// # Errors
    /// The first line that is not an answer; no answers.
    pub fn parse(label: &str, file: &str) -> Result<Vec<Self>> {
        let file = file.strip_prefix('\u{feff}').unwrap_or(file);
        let lines = file
            .lines()
            .enumerate()
            .filter(|(_, text)| !text.trim().is_empty());
        let answers = lines
            .map(|(index, text)| {
                let line = index + 1;
                Self::of_line(line, text).map_err(|problem| error::line(label, line, problem))
            })
            .collect::<Result<Vec<_>>>()?;
        if answers.is_empty() {
            Err(error::no_records(label))
        } else {
            Ok(answers)
        }
    }

    /// The error of an answer to a question that the file `questions` does not contain.
    pub fn without_question(&self, label: &str, questions: &str) -> Error {
        let message = format!(
            "{label}:{}: the answer is to question {}, which {questions} does not contain; use the \
             questions that the answers were recorded with",
            self.line, self.question
        );
        Error::new(ErrorKind::Answer, message)
    }

    /// What is wrong with the answer to a turn, counted from 1, of question `id`.
    fn error_at(&self, label: &str, id: &str, turn: usize, problem: &str) -> Error {
        let line = self.line;
        let message = format!("{label}:{line}: question {id}, turn {turn}: {problem}");
        Error::new(ErrorKind::Answer, message)
    }

    fn of_line(number: usize, text: &str) -> std::result::Result<Self, String> {
        let line: Line = serde_json::from_str(text)
            .map_err(|error| format!("not an answer of Spec-Bench: {error}"))?;
        let question = match line.question_id {
            serde_json::Value::String(id) => id,
            serde_json::Value::Number(id) => id.to_string(),
            other => {
                return Err(format!(
                    "\"question_id\" is {other}; give a number or a string"
                ));
            }
        };
        let choice = line
            .choices
            .into_iter()
            .next()
            .ok_or("\"choices\" is empty; the answer must be its first element")?;
        let (turns, counts) = (choice.turns.len(), choice.new_tokens.len());
        if counts != 0 && counts != turns {
            return Err(format!("{turns} turns, but {counts} counts of new tokens"));
        }
        Ok(Self {
            line: number,
            question,
            model: line.model_id,
            turns: choice.turns,
            new_tokens: choice.new_tokens,
        })
    }
}

/// The trace of all answers. A record that does not fit its header is named after the answer of
/// which it is made, in the file `label`.
///
/// # Errors
/// As [`Trace::new`].
pub fn trace(
    label: &str,
    header: Header,
    records: Vec<Record>,
    answers: &[Answers],
) -> Result<Trace> {
    let turns: Vec<(&Answers, usize)> = answers
        .iter()
        .flat_map(|answer| (1..=answer.turns.len()).map(move |turn| (answer, turn)))
        .collect();
    Trace::named(label.to_owned(), header, records, |index, problem| {
        let Some((answer, turn)) = turns.get(index) else {
            return error::line(label, index + 2, problem);
        };
        answer.error_at(label, &answer.question, *turn, problem)
    })
}

impl Import<'_> {
    /// The records of one conversation, one for each turn that was answered. Messages refer to the
    /// file of answers as `label`.
    ///
    /// # Errors
    /// [`ErrorKind::Answer`] if there are more answers than turns, if an answer has an end token
    /// before its end, or if the tokens of a prompt change when the answer follows it; errors of
    /// the tokenizer.
    pub fn records(
        &self,
        label: &str,
        question: &Sample,
        answers: &Answers,
    ) -> Result<Vec<Record>> {
        let texts: Vec<String> = answers
            .turns
            .iter()
            .map(|turn| whole(turn).0.to_owned())
            .collect();
        let record = |turn: usize| {
            let refused = |problem: &str| answers.error_at(label, &question.id, turn + 1, problem);
            self.record(question, answers, (&texts, turn), refused)
        };
        (0..texts.len()).map(record).collect()
    }

    /// The record of a turn.
    fn record(
        &self,
        question: &Sample,
        answers: &Answers,
        (texts, turn): (&[String], usize),
        refused: impl Fn(&str) -> Error,
    ) -> Result<Record> {
        let finish = self.finish(answers, turn);
        let (context, mut output) = self.tokens_of_turn(question, (texts, turn), &refused)?;
        if finish == Finish::Eos {
            output.push(self.eos);
        }
        if output.is_empty() {
            return Err(refused("the answer is empty; leave it out"));
        }
        Ok(Record {
            id: question.id.clone(),
            category: question.category.clone(),
            turn: turn + 1,
            source: Vec::new(),
            context,
            output,
            margins: None,
            seed: None,
            top: None,
            yields: BTreeMap::new(),
            finish,
        })
    }

    /// The tokens of a turn's prompt and of its answer, without its end.
    fn tokens_of_turn(
        &self,
        question: &Sample,
        (texts, turn): (&[String], usize),
        refused: impl Fn(&str) -> Error,
    ) -> Result<PromptAndOutput> {
        let answer = &texts[turn];
        if answer.contains(END) {
            return Err(refused(&format!(
                "the answer has {END} before its end, so it is not what the target said in one \
                 answer; cut it there"
            )));
        }
        let text = question.prompt_after(PromptTemplate::Vicuna, &texts[..turn]);
        let text = text.map_err(|error| refused(&error.to_string()))?;
        self.prompt_and_output(&text, answer)?.ok_or_else(|| {
            refused(
                "the tokens of the prompt change when the answer follows it, so the target's input \
                 is unknown; is this the tokenizer it used?",
            )
        })
    }

    /// The tokens of a prompt, and of what is said after it; `None` if they melt into each other.
    fn prompt_and_output(&self, text: &str, answer: &str) -> Result<Option<PromptAndOutput>> {
        let prompt = self.tokens(text)?;
        let said = self.tokens(&format!("{text} {answer}{END}"))?;
        let output = said.strip_prefix(prompt.as_slice());
        let output = output
            .and_then(|output| output.strip_suffix(&[self.eos]))
            .map(<[TokenId]>::to_vec);
        Ok(output.map(|output| (prompt, output)))
    }

    /// How a turn ended: at the limit if it has as many tokens, and no end.
    fn finish(&self, answers: &Answers, turn: usize) -> Finish {
        let ended = whole(&answers.turns[turn]).1;
        let count = answers.new_tokens.get(turn);
        if !ended && count.is_some_and(|&count| count >= self.max_new_tokens) {
            Finish::Length
        } else {
            Finish::Eos
        }
    }

    fn tokens(&self, text: &str) -> Result<Vec<TokenId>> {
        self.codec.encode(text).map_err(|error| {
            let message = format!("the tokenizer failed: {error}");
            Error::new(ErrorKind::Generation, message).with_source(error)
        })
    }
}

/// The text of an answer, and whether it ends in an end token, which is not a part of it.
fn whole(answer: &str) -> (&str, bool) {
    match answer.trim_end().strip_suffix(END) {
        Some(text) => (text, true),
        None => (answer, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::TextDecoder;
    use cascade_eval::{Content, Turns};

    const EOS: TokenId = 2;

    /// Encodes characters as tokens after a 1, and `</s>` as 2. If `melts` is set, it merges a
    /// space with the letter after it, which the right model's tokenizer does not do where an
    /// answer begins.
    struct Characters {
        melts: bool,
    }

    impl TextCodec for Characters {
        fn encode(&self, text: &str) -> cascade_core::Result<Vec<TokenId>> {
            let text = if self.melts {
                text.replace(": ", "÷")
            } else {
                text.to_owned()
            };
            let characters = text.replace("</s>", "\u{2}");
            Ok(std::iter::once(1)
                .chain(characters.chars().map(TokenId::from))
                .collect())
        }

        fn decoder(self: std::sync::Arc<Self>) -> Box<dyn TextDecoder + Send> {
            unreachable!("an import decodes nothing")
        }
    }

    fn question() -> Sample {
        let turns = Turns::new(vec!["Why?".into(), "Really?".into()]);
        Sample {
            category: Some("doubts".into()),
            ..Sample::new("81", Content::Text(turns.unwrap()))
        }
    }

    fn answers(turns: &[&str], new_tokens: &[usize]) -> Answers {
        Answers {
            line: 1,
            question: "81".into(),
            model: None,
            turns: turns.iter().map(|&turn| turn.to_owned()).collect(),
            new_tokens: new_tokens.to_vec(),
        }
    }

    fn import(melts: bool, answers: &Answers) -> Result<Vec<Record>> {
        let import = Import {
            codec: &Characters { melts },
            eos: EOS,
            max_new_tokens: 9,
        };
        import.records("a.jsonl", &question(), answers)
    }

    fn text(tokens: &[TokenId]) -> String {
        tokens
            .iter()
            .filter_map(|&token| char::from_u32(token))
            .collect()
    }

    #[test]
    fn turns_become_records_with_the_conversation_before_them() {
        let records = import(false, &answers(&["Because.", "Yes"], &[8, 9])).unwrap();
        let [first, second] = records.as_slice() else {
            panic!("{records:?}")
        };
        assert!(text(&first.context).ends_with(" questions. USER: Why? ASSISTANT:"));
        assert_eq!(text(&first.output), " Because.\u{2}");
        assert_eq!((first.turn, first.finish), (1, Finish::Eos));
        assert_eq!(first.category.as_deref(), Some("doubts"));
        let end = "USER: Why? ASSISTANT: Because.\u{2}USER: Really? ASSISTANT:";
        assert!(text(&second.context).ends_with(end));
        assert_eq!(
            text(&second.output),
            " Yes",
            "cut at the limit: no end of its own"
        );
        assert_eq!((second.turn, second.finish), (2, Finish::Length));
        // Without counts every text is taken to be whole.
        let uncounted = import(false, &answers(&["Because."], &[])).unwrap();
        assert_eq!(uncounted, records[..1]);
    }

    #[test]
    fn what_the_tokenizer_cannot_tell_apart_is_refused() {
        let error = import(true, &answers(&["Because."], &[])).unwrap_err();
        assert!(error.to_string().contains("question 81, turn 1"), "{error}");
        let error = import(false, &answers(&["a", "b", "c"], &[])).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("a.jsonl:1: question 81, turn 3: "),
            "{error}"
        );
    }

    #[test]
    fn an_end_token_at_the_end_of_an_answer_is_its_end() {
        let plain = import(false, &answers(&["Because.", "Yes."], &[8, 4])).unwrap();
        for ends in [["Because.</s>", "Yes.</s>"], ["Because.", "Yes.</s>\n"]] {
            assert_eq!(import(false, &answers(&ends, &[8, 4])).unwrap(), plain);
        }
        // An answer that ends at the limit, but by itself.
        let ended = import(false, &answers(&["Because.", "Yes.</s>"], &[8, 9])).unwrap();
        assert_eq!(ended, plain);
    }

    #[test]
    fn an_end_token_elsewhere_is_refused_with_its_place() {
        for turns in [
            ["Because.", "Yes.</s> No."],
            ["Because.", "Yes.</s></s>"],
            ["Because.", "</s>Yes."],
        ] {
            let answers = Answers {
                line: 7,
                ..answers(&turns, &[])
            };
            let error = import(false, &answers).unwrap_err().to_string();
            assert!(
                error.starts_with("a.jsonl:7: question 81, turn 2: "),
                "{error}"
            );
            assert!(error.contains("</s> before its end"), "{error}");
        }
    }

    #[test]
    fn answer_files_are_read_by_line() {
        let line = r#"{"question_id": 81, "model_id": "m", "choices": [{"index": 0, "turns": ["a"], "new_tokens": [1], "wall_time": [0.5]}]}"#;
        let parsed = Answers::parse("a.jsonl", &format!("\n{line}\n\n")).unwrap();
        let expected = Answers {
            line: 2,
            model: Some("m".into()),
            ..answers(&["a"], &[1])
        };
        assert_eq!(parsed, [expected]);
        for (text, problem) in [
            ("\n".to_owned(), "a.jsonl: there are no records"),
            (
                format!("{line}\n{{}}"),
                "a.jsonl:2: not an answer of Spec-Bench: missing field `question_id`",
            ),
            (line.replace("81", "[]"), "a.jsonl:1: \"question_id\" is []"),
            (line.replace("[1]", "[1, 2]"), "1 turns, but 2 counts"),
            (
                r#"{"question_id": 1, "choices": []}"#.to_owned(),
                "\"choices\" is empty",
            ),
        ] {
            let error = Answers::parse("a.jsonl", &text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
