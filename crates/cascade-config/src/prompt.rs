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
/// are fixed: a template is never changed, only joined by another one. In the forms below, `\n` is
/// a newline and ends of lines carry no space that is not shown.
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
    /// `t5-gsm8k`: `"Reason the math question below step by step. Question: {question}.\n Answer:
    /// "`
    T5Gsm8k,
    /// `t5-mmlu`: `"Question: {question}\n(A) {a} (B) {b} (C) {c} (D) {d}\n Answer: \n Let's think
    /// step by step. "`
    T5Mmlu,
    /// `vicuna-gsm8k`: `"Reason the math question step by step. Question: {question}\n Answer: "`
    /// as a message.
    VicunaGsm8k,
    /// `vicuna-mmlu`: `"Answer the question step by step: Question: {question}\n(A) {a} (B) {b} (C)
    /// {c} (D) {d}\n Answer: \n"` as a message.
    VicunaMmlu,
    /// `problem`: `"Question: {question} Answer:"`, and of multiple choice `"Question: {question}
    /// {a} (A), {b} (B), {c} (C) or {d} (D)? Answer:"`, all in one line: what the demo models are
    /// trained on. A text is asked as a question.
    Problem,
    /// `raw`: a text, or the beginning of a program, as it is. So HumanEval is asked by its authors
    /// (Chen et al., 2021) and by DISCO (Appendix B.2).
    Raw,
    /// `vicuna`: texts as messages, turn by turn. So MT-bench and Spec-Bench are asked by their
    /// authors.
    Vicuna,
    /// `vicuna-humaneval`: `"Create a Python script for this problem:\n{prompt}"` as a message:
    /// WizardCoder's words, which SpecDec++ uses too (within the instruction format of those
    /// models).
    VicunaHumanEval,
    /// `mbpp`: `"\"\"\"\n{text}\n{first test}\n\"\"\"\n"`, a docstring with one test: InCoder's
    /// form (Fried et al., 2023), as the BigCode evaluation harness has it and DISCO uses it
    /// (Appendix B.1).
    Mbpp,
    /// `vicuna-mbpp`: `"You are an expert Python programmer, and here is your task: {text} Your
    /// code should pass these tests:\n\n{tests, one per line}\n"` as a message: the words of MBPP's
    /// authors (Austin et al., 2021), without the `[BEGIN]` that their examples end with.
    VicunaMbpp,
    /// `alpaca`: Stanford Alpaca's own (its `train.py`), which DISCO uses (Appendix B.4): `"Below
    /// is an instruction that describes a task. Write a response that appropriately completes the
    /// request.\n\n### Instruction:\n{instruction}\n\n### Response:"`, or with an input `"Below is
    /// an instruction that describes a task, paired with an input that provides further context.
    /// Write a response that appropriately completes the request.\n\n###
    /// Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"`.
    Alpaca,
    /// `vicuna-alpaca`: `"{instruction}"`, or with an input `"{instruction}\nInput: {input}"`, as a
    /// message: SpecDec++'s form (its `gen_dataset.py`) for chat models.
    VicunaAlpaca,
    /// `cnn-dailymail`: `"Summarize:\n{article}\nSummary:\n"`, as DISCO asks (Figure 8).
    CnnDailyMail,
    /// `t5-cnn-dailymail`: `"summarize: {article}"`, the prefix that T5 was trained with (Raffel et
    /// al., 2020, Appendix D).
    T5CnnDailyMail,
    /// `vicuna-cnn-dailymail`: `"Summarize: {article}"` as a message, as in Spec-Bench's part of
    /// CNN/DailyMail.
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

    /// The name that it goes by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::T5Gsm8k => "t5-gsm8k",
            Self::T5Mmlu => "t5-mmlu",
            Self::VicunaGsm8k => "vicuna-gsm8k",
            Self::VicunaMmlu => "vicuna-mmlu",
            Self::Problem => "problem",
            Self::Raw => "raw",
            Self::Vicuna => "vicuna",
            Self::VicunaHumanEval => "vicuna-humaneval",
            Self::Mbpp => "mbpp",
            Self::VicunaMbpp => "vicuna-mbpp",
            Self::Alpaca => "alpaca",
            Self::VicunaAlpaca => "vicuna-alpaca",
            Self::CnnDailyMail => "cnn-dailymail",
            Self::T5CnnDailyMail => "t5-cnn-dailymail",
            Self::VicunaCnnDailyMail => "vicuna-cnn-dailymail",
        }
    }

    /// The template of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// The kinds of content that it applies to.
    pub const fn accepted(self) -> &'static [ContentKind] {
        match self {
            Self::T5Gsm8k | Self::VicunaGsm8k => &[ContentKind::Question],
            Self::T5Mmlu | Self::VicunaMmlu => &[ContentKind::MultipleChoice],
            Self::Problem => &[
                ContentKind::Question,
                ContentKind::MultipleChoice,
                ContentKind::Text,
            ],
            Self::Raw => &[ContentKind::Text, ContentKind::Code],
            Self::Vicuna => &[ContentKind::Text, ContentKind::Conversation],
            Self::VicunaHumanEval => &[ContentKind::Code],
            Self::Mbpp | Self::VicunaMbpp => &[ContentKind::Task],
            Self::Alpaca | Self::VicunaAlpaca => &[ContentKind::Instruction],
            Self::CnnDailyMail | Self::T5CnnDailyMail | Self::VicunaCnnDailyMail => {
                &[ContentKind::Article]
            }
        }
    }

    /// Whether it applies to content of a kind.
    pub fn accepts(self, kind: ContentKind) -> bool {
        self.accepted().contains(&kind)
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
    pub const fn is_conversation(self) -> bool {
        match self {
            Self::Vicuna
            | Self::VicunaGsm8k
            | Self::VicunaMmlu
            | Self::VicunaHumanEval
            | Self::VicunaMbpp
            | Self::VicunaAlpaca
            | Self::VicunaCnnDailyMail => true,
            Self::Problem
            | Self::Raw
            | Self::T5Gsm8k
            | Self::T5Mmlu
            | Self::Mbpp
            | Self::Alpaca
            | Self::CnnDailyMail
            | Self::T5CnnDailyMail => false,
        }
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
            messages.into_iter().next().unwrap_or_default().into_owned()
        })
    }

    /// What the user says in each turn of a conversation about `content`, for chat templates: the
    /// messages of the template for Vicuna that accepts it. `None` for a conversation, which has
    /// its messages already.
    pub fn user_messages(content: &Content) -> Option<Vec<String>> {
        let kind = content.kind();
        let mut templates = Self::ALL.into_iter();
        let template = templates.find(|t| t.is_conversation() && t.accepts(kind))?;
        let messages = template.messages(content)?;
        Some(messages.into_iter().map(Cow::into_owned).collect())
    }

    /// What the user says in each turn: once at least, unless the content is of a kind that is not
    /// accepted.
    fn messages(self, content: &Content) -> Option<Vec<Cow<'_, str>>> {
        let only = match (self, content) {
            (Self::Raw | Self::Vicuna, Content::Text(turns)) => {
                return Some(turns.iter().map(Cow::Borrowed).collect());
            }
            (Self::Vicuna, Content::Conversation(_)) => {
                return Some(content.turns().into_iter().map(Cow::Borrowed).collect());
            }
            (Self::Problem, Content::Text(turns)) => self.question(turns.first())?,
            (Self::Raw, Content::Code(code)) => return Some(vec![Cow::Borrowed(code)]),
            (_, Content::Question(question)) => self.question(question)?,
            (_, Content::MultipleChoice { question, choices }) => self.choice(question, choices)?,
            (Self::VicunaHumanEval, Content::Code(code)) => {
                format!("Create a Python script for this problem:\n{code}")
            }
            (_, Content::Task { description, tests }) => self.task(description, tests)?,
            (_, Content::Instruction { instruction, input }) => {
                self.instruction(instruction, input.as_deref())?
            }
            (_, Content::Article(article)) => self.article(article)?,
            _ => return None,
        };
        Some(vec![Cow::Owned(only)])
    }

    fn question(self, question: &str) -> Option<String> {
        match self {
            Self::T5Gsm8k => Some(format!(
                "Reason the math question below step by step. Question: {question}.\n Answer: "
            )),
            Self::VicunaGsm8k => Some(format!(
                "Reason the math question step by step. Question: {question}\n Answer: "
            )),
            Self::Problem => Some(format!("Question: {question} Answer:")),
            _ => None,
        }
    }

    fn choice(self, question: &str, [a, b, c, d]: &[String; 4]) -> Option<String> {
        match self {
            #[rustfmt::skip]
            Self::T5Mmlu => Some(format!(
                "Question: {question}\n(A) {a} (B) {b} (C) {c} (D) {d}\n Answer: \n Let's think step by step. "
            )),
            #[rustfmt::skip]
            Self::VicunaMmlu => Some(format!(
                "Answer the question step by step: Question: {question}\n(A) {a} (B) {b} (C) {c} (D) {d}\n Answer: \n"
            )),
            Self::Problem => Some(format!(
                "Question: {question} {a} (A), {b} (B), {c} (C) or {d} (D)? Answer:"
            )),
            _ => None,
        }
    }

    fn task(self, description: &str, tests: &[String]) -> Option<String> {
        match self {
            Self::Mbpp => {
                let test: String = tests.iter().take(1).map(|t| format!("{t}\n")).collect();
                Some(format!("\"\"\"\n{description}\n{test}\"\"\"\n"))
            }
            Self::VicunaMbpp => {
                let tests = tests.join("\n");
                Some(format!(
                    "You are an expert Python programmer, and here is your task: {description} \
                     Your code should pass these tests:\n\n{tests}\n"
                ))
            }
            _ => None,
        }
    }

    fn instruction(self, instruction: &str, input: Option<&str>) -> Option<String> {
        match (self, input) {
            (Self::Alpaca, None) => Some(format!(
                "Below is an instruction that describes a task. \
                 Write a response that appropriately completes the request.\n\n\
                 ### Instruction:\n{instruction}\n\n### Response:"
            )),
            (Self::Alpaca, Some(input)) => Some(format!(
                "Below is an instruction that describes a task, paired with an input that provides further context. \
                 Write a response that appropriately completes the request.\n\n\
                 ### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
            )),
            (Self::VicunaAlpaca, None) => Some(instruction.to_owned()),
            (Self::VicunaAlpaca, Some(input)) => Some(format!("{instruction}\nInput: {input}")),
            _ => None,
        }
    }

    fn article(self, article: &str) -> Option<String> {
        match self {
            Self::CnnDailyMail => Some(format!("Summarize:\n{article}\nSummary:\n")),
            Self::T5CnnDailyMail => Some(format!("summarize: {article}")),
            Self::VicunaCnnDailyMail => Some(format!("Summarize: {article}")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
