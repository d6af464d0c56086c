//! Prompt templates, exact to the byte.

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::{Error, Result, Sample, SampleKind};

/// How a sample becomes the text that a model is asked to continue.
///
/// Greedy output depends on every byte of a prompt, spaces before a line's end included, so these are fixed: a template
/// is never changed, only joined by another one. In the forms below, `\n` is a newline and ends of lines carry no space
/// that is not shown.
///
/// The Vicuna templates put a message into the one-turn conversation of Vicuna v1.1:
/// `A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and
/// polite answers to the user's questions. USER: {message} ASSISTANT:`, all in one line.
///
/// On the command line and in configurations a template goes by its [`name`](Self::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PromptTemplate {
    /// `t5-gsm8k`: `"Reason the math question below step by step. Question: {question}.\n Answer: "`
    T5Gsm8k,
    /// `t5-mmlu`: `"Question: {question}\n(A) {a} (B) {b} (C) {c} (D) {d}\n Answer: \n Let's think step by step. "`
    T5Mmlu,
    /// `vicuna-gsm8k`: `"Reason the math question step by step. Question: {question}\n Answer: "` as a message.
    VicunaGsm8k,
    /// `vicuna-mmlu`: `"Answer the question step by step: Question: {question}\n(A) {a} (B) {b} (C) {c} (D) {d}\n Answer: \n"`
    /// as a message.
    VicunaMmlu,
    /// `raw`: a text as it is.
    Raw,
    /// `vicuna`: a text as a message.
    Vicuna,
}

named!(PromptTemplate, UnknownTemplate);

impl PromptTemplate {
    /// All templates.
    pub const ALL: [Self; 6] = [
        Self::T5Gsm8k,
        Self::T5Mmlu,
        Self::VicunaGsm8k,
        Self::VicunaMmlu,
        Self::Raw,
        Self::Vicuna,
    ];

    /// The name that it goes by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::T5Gsm8k => "t5-gsm8k",
            Self::T5Mmlu => "t5-mmlu",
            Self::VicunaGsm8k => "vicuna-gsm8k",
            Self::VicunaMmlu => "vicuna-mmlu",
            Self::Raw => "raw",
            Self::Vicuna => "vicuna",
        }
    }

    /// The kind of sample that it applies to.
    pub const fn expects(self) -> SampleKind {
        match self {
            Self::T5Gsm8k | Self::VicunaGsm8k => SampleKind::Question,
            Self::T5Mmlu | Self::VicunaMmlu => SampleKind::MultipleChoice,
            Self::Raw | Self::Vicuna => SampleKind::Text,
        }
    }

    /// The prompt for a sample.
    ///
    /// # Errors
    /// [`Error::TemplateMismatch`] if the sample is of another kind than the template [`expects`](Self::expects).
    pub fn apply(self, sample: &Sample) -> Result<String> {
        match (self, sample) {
            (Self::T5Gsm8k, Sample::Question { question, .. }) => Ok(format!(
                "Reason the math question below step by step. Question: {question}.\n Answer: "
            )),
            (Self::VicunaGsm8k, Sample::Question { question, .. }) => Ok(conversation(&format!(
                "Reason the math question step by step. Question: {question}\n Answer: "
            ))),
            #[rustfmt::skip]
            (Self::T5Mmlu, Sample::MultipleChoice { question, choices: [a, b, c, d], .. }) => Ok(format!(
                "Question: {question}\n(A) {a} (B) {b} (C) {c} (D) {d}\n Answer: \n Let's think step by step. "
            )),
            #[rustfmt::skip]
            (Self::VicunaMmlu, Sample::MultipleChoice { question, choices: [a, b, c, d], .. }) => Ok(conversation(&format!(
                "Answer the question step by step: Question: {question}\n(A) {a} (B) {b} (C) {c} (D) {d}\n Answer: \n"
            ))),
            (Self::Raw, Sample::Text { prompt, .. }) => Ok(prompt.clone()),
            (Self::Vicuna, Sample::Text { prompt, .. }) => Ok(conversation(prompt)),
            (template, sample) => Err(Error::TemplateMismatch {
                template,
                found: sample.kind(),
            }),
        }
    }
}

/// The one-turn conversation of Vicuna v1.1.
fn conversation(message: &str) -> String {
    format!(
        "A chat between a curious user and an artificial intelligence assistant. \
         The assistant gives helpful, detailed, and polite answers to the user's questions. \
         USER: {message} ASSISTANT:"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Letter;

    const SYSTEM: &str = "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions.";

    fn samples() -> [Sample; 3] {
        [
            Sample::question("How many {question}s?"),
            Sample::MultipleChoice {
                question: "Which?".into(),
                choices: ["one", "{d}", "3", "(B) four"].map(String::from),
                answer: Some(Letter::B),
            },
            Sample::text("Hello\nthere "),
        ]
    }

    #[test]
    fn prompts_are_exact() {
        let [question, choice, text] = &samples();
        let all = [
            (PromptTemplate::T5Gsm8k, question, "Reason the math question below step by step. Question: How many {question}s?.\n Answer: ".to_owned()),
            (PromptTemplate::VicunaGsm8k, question, format!("{SYSTEM} USER: Reason the math question step by step. Question: How many {{question}}s?\n Answer:  ASSISTANT:")),
            (PromptTemplate::T5Mmlu, choice, "Question: Which?\n(A) one (B) {d} (C) 3 (D) (B) four\n Answer: \n Let's think step by step. ".to_owned()),
            (PromptTemplate::VicunaMmlu, choice, format!("{SYSTEM} USER: Answer the question step by step: Question: Which?\n(A) one (B) {{d}} (C) 3 (D) (B) four\n Answer: \n ASSISTANT:")),
            (PromptTemplate::Raw, text, "Hello\nthere ".to_owned()),
            (PromptTemplate::Vicuna, text, format!("{SYSTEM} USER: Hello\nthere  ASSISTANT:")),
        ];
        for (template, sample, expected) in all {
            assert_eq!(template.apply(sample).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn a_template_refuses_other_kinds() {
        for template in PromptTemplate::ALL {
            for sample in &samples() {
                let fits = sample.kind() == template.expects();
                assert_eq!(template.apply(sample).is_ok(), fits, "{template}");
            }
        }
        let error = PromptTemplate::T5Mmlu
            .apply(&Sample::text("hi"))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the prompt template t5-mmlu needs a multiple-choice question, but the sample is a text; \
             for that there are raw, vicuna"
        );
    }

    #[test]
    fn names_go_both_ways() {
        for template in PromptTemplate::ALL {
            assert_eq!(
                template.to_string().parse::<PromptTemplate>().unwrap(),
                template
            );
            let json = serde_json::to_string(&template).unwrap();
            assert_eq!(json, format!("{:?}", template.name()));
            assert_eq!(
                serde_json::from_str::<PromptTemplate>(&json).unwrap(),
                template
            );
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known() {
        let error = "gsm8k".parse::<PromptTemplate>().unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no prompt template \"gsm8k\"; \
             known are t5-gsm8k, t5-mmlu, vicuna-gsm8k, vicuna-mmlu, raw, vicuna"
        );
        let serde = serde_json::from_str::<PromptTemplate>("\"gsm8k\"").unwrap_err();
        assert!(serde.to_string().contains(&error));
    }
}
