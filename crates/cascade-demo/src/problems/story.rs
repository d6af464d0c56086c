//! A problem before it is put together.

use super::draw::Draw;

/// A kind of problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    pub(super) name: &'static str,
    /// Whether it is never trained on, which shows what generalises.
    pub(super) held_out: bool,
    pub(super) tell: fn(&mut Draw) -> Story,
}

/// A template, by the name of its function.
macro_rules! template {
    ($tell:ident) => {
        Template {
            name: stringify!($tell),
            held_out: false,
            tell: $tell,
        }
    };
    ($tell:ident, held out) => {
        Template {
            held_out: true,
            ..template!($tell)
        }
    };
}
pub(super) use template;

/// Facts, a question, and how the answer is found.
#[derive(Debug)]
pub(super) struct Story {
    /// Sentences, in order.
    pub(super) facts: Vec<String>,
    /// The last sentence.
    pub(super) question: String,
    /// A sentence with an equation for each step.
    pub(super) steps: Vec<String>,
    pub(super) answer: Answer,
}

/// What is asked for.
#[derive(Debug)]
pub(super) enum Answer {
    Number(u32),
    /// One of four, by its place among them.
    OneOf([String; 4], usize),
}

impl Story {
    pub(super) fn new<const N: usize, const M: usize>(
        facts: [String; N],
        question: String,
        steps: [String; M],
        answer: u32,
    ) -> Self {
        Self {
            facts: facts.into(),
            question,
            steps: steps.into(),
            answer: Answer::Number(answer),
        }
    }
}
