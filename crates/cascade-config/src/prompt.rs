//! Prompt templates, exact to the byte.

mod content;
mod error;
mod vicuna;

use std::borrow::Cow;

use cascade_chat::ChatTemplate;
use serde::{Deserialize, Serialize};

pub use content::{Content, ContentKind, Turns};
pub use error::PromptError;

/// How a question becomes the text that a model is asked to continue.
///
/// Greedy output depends on every byte of a prompt, spaces before a line's end included, so these
/// are fixed: a template is never changed, only joined by another one.
///
/// The Vicuna templates put messages into the conversation of Vicuna v1.1, as FastChat's
/// `vicuna_v1.1` does: `A chat between a curious user and an artificial intelligence assistant. The
/// assistant gives helpful, detailed, and polite answers to the user's questions. USER: {message}
/// ASSISTANT:`, all in one line; later turns follow as ` {answer}</s>USER: {message} ASSISTANT:`.
/// They alone ask several turns; the others ask the first turn of a text.
///
/// On the command line and in configurations a template goes by its [`name`](Self::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PromptTemplate {
    /// `t5-gsm8k`: questions step by step, as Cascade Speculative Drafting asks T5.
    T5Gsm8k,
    /// `t5-mmlu`: multiple choice step by step, as Cascade Speculative Drafting asks T5.
    T5Mmlu,
    /// `vicuna-gsm8k`: questions step by step as a message.
    VicunaGsm8k,
    /// `vicuna-mmlu`: multiple choice step by step as a message.
    VicunaMmlu,
    /// `problem`: questions and multiple choice in one line: what the demo models are trained on. A
    /// text is asked as a question.
    Problem,
    /// `raw`: a text, or the beginning of a program, as it is. So HumanEval is asked by its authors
    /// (Chen et al., 2021) and by DISCO (Appendix B.2).
    Raw,
    /// `vicuna`: texts as messages, turn by turn. So MT-bench and Spec-Bench are asked by their
    /// authors.
    Vicuna,
    /// `vicuna-humaneval`: the beginning of a program as a message in WizardCoder's words, which
    /// SpecDec++ uses too (within the instruction format of those models).
    VicunaHumanEval,
    /// `mbpp`: a docstring with one test: InCoder's form (Fried et al., 2023), as the BigCode
    /// evaluation harness has it and DISCO uses it (Appendix B.1).
    Mbpp,
    /// `vicuna-mbpp`: a task and its tests as a message: the words of MBPP's authors (Austin et
    /// al., 2021), without the `[BEGIN]` that their examples end with.
    VicunaMbpp,
    /// `alpaca`: Stanford Alpaca's own form (its `train.py`), which DISCO uses (Appendix B.4).
    Alpaca,
    /// `vicuna-alpaca`: an instruction as a message: SpecDec++'s form (its `gen_dataset.py`) for
    /// chat models.
    VicunaAlpaca,
    /// `cnn-dailymail`: an article to summarize, as DISCO asks (Figure 8).
    CnnDailyMail,
    /// `t5-cnn-dailymail`: the prefix that T5 was trained with (Raffel et al., 2020, Appendix D).
    T5CnnDailyMail,
    /// `vicuna-cnn-dailymail`: an article as a message, as in Spec-Bench's part of CNN/DailyMail.
    VicunaCnnDailyMail,
}

impl std::fmt::Display for PromptTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for PromptTemplate {
    type Err = PromptError;

    fn from_str(name: &str) -> Result<Self, PromptError> {
        Self::from_name(name).ok_or_else(|| PromptError::UnknownTemplate {
            name: name.to_owned(),
        })
    }
}

impl TryFrom<String> for PromptTemplate {
    type Error = PromptError;

    fn try_from(name: String) -> Result<Self, PromptError> {
        name.parse()
    }
}

impl From<PromptTemplate> for String {
    fn from(value: PromptTemplate) -> Self {
        value.to_string()
    }
}

impl PromptTemplate {
    /// All templates.
    pub const ALL: [Self; 15] = [
        Self::T5Gsm8k,
        Self::T5Mmlu,
        Self::VicunaGsm8k,
        Self::VicunaMmlu,
        Self::Problem,
        Self::Raw,
        Self::Vicuna,
        Self::VicunaHumanEval,
        Self::Mbpp,
        Self::VicunaMbpp,
        Self::Alpaca,
        Self::VicunaAlpaca,
        Self::CnnDailyMail,
        Self::T5CnnDailyMail,
        Self::VicunaCnnDailyMail,
    ];

    const NAMES: [&'static str; 15] = [
        "t5-gsm8k",
        "t5-mmlu",
        "vicuna-gsm8k",
        "vicuna-mmlu",
        "problem",
        "raw",
        "vicuna",
        "vicuna-humaneval",
        "mbpp",
        "vicuna-mbpp",
        "alpaca",
        "vicuna-alpaca",
        "cnn-dailymail",
        "t5-cnn-dailymail",
        "vicuna-cnn-dailymail",
    ];

    /// The name that it goes by.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The template of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// The words around content of a kind, if it applies to it. `{}` is the text of a turn, and
    /// `{name}` another part of the content. Instructions with an input have words of their own.
    fn words(self, kind: ContentKind, has_input: bool) -> Option<&'static str> {
        use ContentKind as Kind;
        Some(match (self, kind) {
            (Self::T5Gsm8k, Kind::Question) => {
                "Reason the math question below step by step. Question: {}.\n Answer: "
            }
            (Self::T5Mmlu, Kind::MultipleChoice) => {
                "Question: {}\n(A) {a} (B) {b} (C) {c} (D) {d}\n Answer: \n \
                 Let's think step by step. "
            }
            (Self::VicunaGsm8k, Kind::Question) => {
                "Reason the math question step by step. Question: {}\n Answer: "
            }
            (Self::VicunaMmlu, Kind::MultipleChoice) => {
                "Answer the question step by step: \
                 Question: {}\n(A) {a} (B) {b} (C) {c} (D) {d}\n Answer: \n"
            }
            (Self::Problem, Kind::Question | Kind::Text) => "Question: {} Answer:",
            (Self::Problem, Kind::MultipleChoice) => {
                "Question: {} {a} (A), {b} (B), {c} (C) or {d} (D)? Answer:"
            }
            (Self::Raw, Kind::Text | Kind::Code) => "{}",
            (Self::Vicuna, Kind::Text | Kind::Conversation) => "{}",
            _ => return self.words_of_task(kind, has_input),
        })
    }

    fn words_of_task(self, kind: ContentKind, has_input: bool) -> Option<&'static str> {
        use ContentKind as Kind;
        Some(match (self, kind) {
            (Self::VicunaHumanEval, Kind::Code) => "Create a Python script for this problem:\n{}",
            (Self::Mbpp, Kind::Task) => "\"\"\"\n{}\n{first test}\"\"\"\n",
            (Self::VicunaMbpp, Kind::Task) => {
                "You are an expert Python programmer, and here is your task: {} \
                 Your code should pass these tests:\n\n{tests}\n"
            }
            (Self::Alpaca, Kind::Instruction) if has_input => {
                "Below is an instruction that describes a task, paired with an input that provides \
                 further context. Write a response that appropriately completes the request.\n\n\
                 ### Instruction:\n{}\n\n### Input:\n{input}\n\n### Response:"
            }
            (Self::Alpaca, Kind::Instruction) => {
                "Below is an instruction that describes a task. \
                 Write a response that appropriately completes the request.\n\n\
                 ### Instruction:\n{}\n\n### Response:"
            }
            (Self::VicunaAlpaca, Kind::Instruction) if has_input => "{}\nInput: {input}",
            (Self::VicunaAlpaca, Kind::Instruction) => "{}",
            (Self::CnnDailyMail, Kind::Article) => "Summarize:\n{}\nSummary:\n",
            (Self::T5CnnDailyMail, Kind::Article) => "summarize: {}",
            (Self::VicunaCnnDailyMail, Kind::Article) => "Summarize: {}",
            _ => return None,
        })
    }

    /// Whether it applies to content of a kind.
    pub fn accepts(self, kind: ContentKind) -> bool {
        self.words(kind, false).is_some()
    }

    /// The template of a text that someone types where this one is configured:
    /// [`Problem`](Self::Problem), if that is the only form that the model knows, or the text as
    /// it is.
    pub const fn of_typed_texts(self) -> Self {
        match self {
            Self::Problem => Self::Problem,
            _ => Self::Raw,
        }
    }

    /// Whether it makes a conversation, in which several turns have their place.
    pub fn is_conversation(self) -> bool {
        self.name().starts_with("vicuna")
    }

    /// Number of turns that it asks: all of them in a conversation, otherwise one.
    pub fn turns(self, content: &Content) -> usize {
        if self.is_conversation() {
            content.turns().len()
        } else {
            1
        }
    }

    /// The prompt for the first turn.
    ///
    /// # Errors
    /// [`PromptError::TemplateMismatch`] if the content is of a kind that the template does not
    /// [accept](Self::accepts).
    pub fn apply(self, content: &Content) -> Result<String, PromptError> {
        self.apply_after(content, &[])
    }

    /// The prompt for the turn that follows the given answers, one to each turn before it. They
    /// stand in the prompt as they are; FastChat strips white space from both ends of an answer
    /// before it goes on.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); [`PromptError::NoTurnLeft`] if there are as many answers as
    /// [turns](Self::turns), or more.
    pub fn apply_after(self, content: &Content, answers: &[String]) -> Result<String, PromptError> {
        if let (Self::Vicuna, Content::Conversation(messages), []) = (self, content, answers) {
            return Ok(ChatTemplate::vicuna().render(messages)?);
        }
        let messages = self
            .messages(content)
            .ok_or_else(|| PromptError::TemplateMismatch {
                template: self,
                found: content.kind(),
            })?;
        let turns = self.turns(content);
        if answers.len() >= turns {
            return Err(PromptError::NoTurnLeft {
                template: self,
                turns,
            });
        }
        Ok(if self.is_conversation() {
            vicuna::conversation(&messages, answers)
        } else {
            messages.into_iter().next().unwrap_or_default()
        })
    }

    /// What the user says in each turn of a conversation about `content`, for chat templates: the
    /// messages of the template for Vicuna that accepts it. `None` for a conversation, which has
    /// its messages already.
    pub fn user_messages(content: &Content) -> Option<Vec<String>> {
        let kind = content.kind();
        let mut templates = Self::ALL.into_iter();
        let template = templates.find(|t| t.is_conversation() && t.accepts(kind))?;
        template.messages(content)
    }

    /// What the user says in each turn: once at least, unless the content is of a kind that is not
    /// accepted.
    fn messages(self, content: &Content) -> Option<Vec<String>> {
        let has_input = matches!(content, Content::Instruction { input: Some(_), .. });
        let words = self.words(content.kind(), has_input)?;
        let turns = content.turns().into_iter();
        Some(turns.map(|turn| filled(words, turn, content)).collect())
    }
}

/// The words of a template with a turn and the other parts of its content in their places.
fn filled(words: &str, turn: &str, content: &Content) -> String {
    let mut parts = words.split(['{', '}']);
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let (Some(place), Some(words)) = (parts.next(), parts.next()) {
        text.push_str(&part(place, turn, content));
        text.push_str(words);
    }
    text
}

fn part<'c>(place: &str, turn: &'c str, content: &'c Content) -> Cow<'c, str> {
    match (place, content) {
        ("a" | "b" | "c" | "d", Content::MultipleChoice { choices, .. }) => {
            let letters = ["a", "b", "c", "d"].into_iter().zip(choices);
            letters
                .filter(|(letter, _)| *letter == place)
                .map(|(_, choice)| choice.as_str())
                .collect()
        }
        ("first test", Content::Task { tests, .. }) => tests
            .iter()
            .take(1)
            .map(|test| format!("{test}\n"))
            .collect(),
        ("tests", Content::Task { tests, .. }) => tests.join("\n").into(),
        ("input", Content::Instruction { input, .. }) => {
            input.as_deref().unwrap_or_default().into()
        }
        _ => turn.into(),
    }
}

#[cfg(test)]
mod tests;
