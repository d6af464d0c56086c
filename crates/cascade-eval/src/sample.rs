//! What a dataset is made of.

use std::fmt;

use serde_json::{Map, Value};

/// One entry of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub enum Sample {
    /// A question that is answered in words.
    Question {
        /// The question.
        question: String,
        /// The reference answer, where there is one.
        answer: Option<String>,
    },
    /// A question with four choices.
    MultipleChoice {
        /// The question.
        question: String,
        /// The choices (A) to (D).
        choices: [String; 4],
        /// The right one, where it is known.
        answer: Option<Letter>,
    },
    /// A text to continue or a message to answer.
    Text {
        /// The text.
        prompt: String,
        /// Whatever else stood beside it, in its order.
        fields: Map<String, Value>,
    },
}

impl Sample {
    /// A question without a reference answer.
    pub fn question(question: impl Into<String>) -> Self {
        Self::Question {
            question: question.into(),
            answer: None,
        }
    }

    /// A text with nothing beside it.
    pub fn text(prompt: impl Into<String>) -> Self {
        Self::Text {
            prompt: prompt.into(),
            fields: Map::new(),
        }
    }

    /// Which kind of entry this is.
    pub fn kind(&self) -> SampleKind {
        match self {
            Self::Question { .. } => SampleKind::Question,
            Self::MultipleChoice { .. } => SampleKind::MultipleChoice,
            Self::Text { .. } => SampleKind::Text,
        }
    }
}

/// A kind of [`Sample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleKind {
    /// [`Sample::Question`].
    Question,
    /// [`Sample::MultipleChoice`].
    MultipleChoice,
    /// [`Sample::Text`].
    Text,
}

impl fmt::Display for SampleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Question => "question",
            Self::MultipleChoice => "multiple-choice question",
            Self::Text => "text",
        })
    }
}

/// One of four choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Letter {
    /// The first choice.
    A,
    /// The second choice.
    B,
    /// The third choice.
    C,
    /// The fourth choice.
    D,
}

impl Letter {
    /// The choice that a capital letter names.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "A" => Some(Self::A),
            "B" => Some(Self::B),
            "C" => Some(Self::C),
            "D" => Some(Self::D),
            _ => None,
        }
    }
}

impl fmt::Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
        })
    }
}
