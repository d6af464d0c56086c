//! Traces from recorded answers of Spec-Bench (or MT-bench, whose files have the same form).
//!
//! An answer file has one JSON object per line: `question_id`, and in `choices[0]` the texts of all
//! `turns` and, for each, the number of `new_tokens` that the target generated. The texts are
//! tokenized within Vicuna's conversation template, turn by turn, so prompts and outputs are the
//! target's, as far as the text determines them. The target is decoder-only.

use cascade_core::{TextCodec, TokenId};
use cascade_data::{PromptTemplate, Sample};
use serde::Deserialize;

use super::{Error, Finish, Record, Result};

/// What is needed to convert texts to records.
#[derive(Clone, Copy)]
pub struct Import<'a> {
    /// The target's tokenizer, which encodes the beginning of a text and `</s>` as the target
    /// expects them.
    pub codec: &'a dyn TextCodec,
    /// The token of `</s>`.
    pub eos: TokenId,
    /// The recording's token limit: an answer of this many tokens was truncated.
    pub max_new_tokens: usize,
}

/// The answers to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
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
    /// [`Error::Line`] for the first line that is not an answer; [`Error::NoRecords`] if there are
    /// no answers.
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
        let choice = choice.ok_or("\"choices\" is empty; the answer must be its first element")?;
        let (turns, counts) = (choice.turns.len(), choice.new_tokens.len());
        if counts != 0 && counts != turns {
            return Err(format!("{turns} turns, but {counts} counts of new tokens"));
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
    /// [`Error::Template`] if there are more answers than turns; [`Error::Unstable`];
    /// [`Error::Codec`].
    pub fn records(&self, question: &Sample, answers: &Answers) -> Result<Vec<Record>> {
        (0..answers.turns.len())
            .map(|turn| self.record(question, answers, turn))
            .collect()
    }

    fn record(&self, question: &Sample, answers: &Answers, turn: usize) -> Result<Record> {
        let text = question.prompt_after(PromptTemplate::Vicuna, &answers.turns[..turn])?;
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
            margins: None,
            finish,
        })
    }

    fn tokens(&self, text: &str) -> Result<Vec<TokenId>> {
        self.codec.encode(text).map_err(Error::Codec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::TextDecoder;
    use cascade_data::{Content, Turns};

    const EOS: TokenId = 2;

    /// Encodes characters as tokens after a 1, and `</s>` as 2. If `melts` is set, it merges a
    /// space with the letter after it, which the right model's tokenizer does not do where an
    /// answer begins.
    struct Characters {
        melts: bool,
    }

    impl TextCodec for Characters {
        fn encode(&self, text: &str) -> cascade_core::Result<Vec<TokenId>> {
            let text = match self.melts {
                true => text.replace(": ", "÷"),
                false => text.to_owned(),
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
        import.records(&question(), answers)
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
        assert!(matches!(error, Error::Template(_)), "{error}");
    }

    #[test]
    fn answer_files_are_read_by_line() {
        let line = r#"{"question_id": 81, "model_id": "m", "choices": [{"index": 0, "turns": ["a"], "new_tokens": [1], "wall_time": [0.5]}]}"#;
        let parsed = Answers::parse("a.jsonl", &format!("{line}\n\n")).unwrap();
        let expected = Answers {
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
