//! What prompts are made of.

use std::fmt;

use cascade_chat::{Message, Role};

/// What a user asks, without the words of a template.
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
        /// What it must do.
        description: String,
        /// Assertions that it must pass.
        tests: Vec<String>,
    },
    /// An instruction to follow.
    Instruction {
        /// The instruction.
        instruction: String,
        /// What it is about, unless the instruction says everything.
        input: Option<String>,
    },
    /// An article to summarize.
    Article(String),
    /// A conversation whose last message is to be answered.
    Conversation(Vec<Message>),
}

impl Content {
    /// Which kind of content this is.
    pub fn kind(&self) -> ContentKind {
        match self {
            Self::Question(_) => ContentKind::Question,
            Self::MultipleChoice { .. } => ContentKind::MultipleChoice,
            Self::Text(_) => ContentKind::Text,
            Self::Code(_) => ContentKind::Code,
            Self::Task { .. } => ContentKind::Task,
            Self::Instruction { .. } => ContentKind::Instruction,
            Self::Article(_) => ContentKind::Article,
            Self::Conversation(_) => ContentKind::Conversation,
        }
    }

    /// The text of each turn, without a template's; one turn unless it is a [`Text`](Self::Text) of
    /// several. Of a [`Conversation`](Self::Conversation) it is what the user said last.
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
            Self::Conversation(messages) => {
                let mut messages = messages.iter().rev();
                let asked = messages.find(|message| message.role() == Role::User);
                vec![asked.map_or("", Message::text)]
            }
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
pub enum ContentKind {
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
    /// [`Content::Conversation`].
    Conversation,
}

impl ContentKind {
    const NAMES: [(Self, &'static str); 8] = [
        (Self::Question, "a question"),
        (Self::MultipleChoice, "a multiple-choice question"),
        (Self::Text, "a text"),
        (Self::Code, "the beginning of a program"),
        (Self::Task, "a programming task"),
        (Self::Instruction, "an instruction"),
        (Self::Article, "an article"),
        (Self::Conversation, "a conversation"),
    ];

    /// All kinds, in their order.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().map(|(kind, _)| kind)
    }
}

impl fmt::Display for ContentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize].1)
    }
}
