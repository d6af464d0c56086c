//! What a dataset is made of.

use std::fmt;

use serde_json::{Map, Value};

/// One entry of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What the dataset calls the entry; if it has no name for it, the entry's position in the dataset, from 0, counted
    /// before anything is selected.
    pub id: String,
    /// Subject, category or kind of question, where the dataset tells.
    pub category: Option<String>,
    /// What is asked.
    pub content: Content,
    /// For each turn, the answers that count as right: several if the dataset has several, none where it has none. Empty
    /// if there is no reference at all. A multiple-choice question's is its [`Letter`].
    pub references: Vec<Vec<String>>,
    /// The entry's other fields, in their order and under their own names. A field that only gave the [`id`](Self::id) is
    /// among them, as it stood.
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

    /// The first reference of the first turn.
    pub fn reference(&self) -> Option<&str> {
        self.references.first()?.first().map(String::as_str)
    }
}

/// What a sample asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A question that is answered in words.
    Question(String),
    /// A question with four choices.
    MultipleChoice {
        /// The question.
        question: String,
        /// The choices (A) to (D).
        choices: [String; 4],
    },
    /// A text to continue, or messages to answer one after the other.
    Text(Turns),
    /// The beginning of a program, to be completed.
    Code(String),
    /// A program to write.
    Task {
        /// What it shall do.
        description: String,
        /// Assertions that it must fulfil.
        tests: Vec<String>,
    },
    /// An instruction to follow.
    Instruction {
        /// The instruction.
        instruction: String,
        /// What it is about, unless it says all itself.
        input: Option<String>,
    },
    /// An article to summarize.
    Article(String),
}

impl Content {
    /// Which kind of content this is.
    pub fn kind(&self) -> SampleKind {
        match self {
            Self::Question(_) => SampleKind::Question,
            Self::MultipleChoice { .. } => SampleKind::MultipleChoice,
            Self::Text(_) => SampleKind::Text,
            Self::Code(_) => SampleKind::Code,
            Self::Task { .. } => SampleKind::Task,
            Self::Instruction { .. } => SampleKind::Instruction,
            Self::Article(_) => SampleKind::Article,
        }
    }

    /// The words of each turn, without a template's; one turn unless it is a [`Text`](Self::Text) of several.
    pub fn turns(&self) -> Vec<&str> {
        match self {
            Self::Text(turns) => turns.iter().collect(),
            Self::Question(text)
            | Self::MultipleChoice { question: text, .. }
            | Self::Code(text)
            | Self::Task {
                description: text, ..
            }
            | Self::Instruction {
                instruction: text, ..
            }
            | Self::Article(text) => vec![text],
        }
    }
}

/// What a user says, turn by turn: at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    first: String,
    later: Vec<String>,
}

impl Turns {
    /// The turns in their order; `None` if there is none.
    pub fn new(turns: Vec<String>) -> Option<Self> {
        let mut turns = turns.into_iter();
        Some(Self {
            first: turns.next()?,
            later: turns.collect(),
        })
    }

    /// The first turn.
    pub fn first(&self) -> &str {
        &self.first
    }

    /// All turns in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.first)
            .chain(&self.later)
            .map(String::as_str)
    }
}

impl<T: Into<String>> From<T> for Turns {
    /// A single turn.
    fn from(only: T) -> Self {
        Self {
            first: only.into(),
            later: Vec::new(),
        }
    }
}

/// A kind of [`Content`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleKind {
    /// [`Content::Question`].
    Question,
    /// [`Content::MultipleChoice`].
    MultipleChoice,
    /// [`Content::Text`].
    Text,
    /// [`Content::Code`].
    Code,
    /// [`Content::Task`].
    Task,
    /// [`Content::Instruction`].
    Instruction,
    /// [`Content::Article`].
    Article,
}

impl fmt::Display for SampleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Question => "a question",
            Self::MultipleChoice => "a multiple-choice question",
            Self::Text => "a text",
            Self::Code => "the beginning of a program",
            Self::Task => "a programming task",
            Self::Instruction => "an instruction",
            Self::Article => "an article",
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
    /// All letters.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];

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
