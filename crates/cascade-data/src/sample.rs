//! What a dataset is made of.

use std::fmt;

use cascade_config::{Content, PromptError, PromptTemplate};
use serde_json::{Map, Value};

use crate::{Error, ErrorKind, Result};

/// One entry of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What the dataset calls the entry; if it has no name for it, the entry's position in the
    /// dataset, from 0, counted before anything is selected.
    pub id: String,
    /// Subject, category or kind of question, where the dataset has it.
    pub category: Option<String>,
    /// What is asked.
    pub content: Content,
    /// For each turn, the answers that count as right: several if the dataset has several, none
    /// where it has none. Empty if there is no reference at all. A multiple-choice question's is
    /// its [`Letter`].
    pub references: Vec<Vec<String>>,
    /// The entry's other fields, in their order and under their own names. A field that only gave
    /// the [`id`](Self::id) is among them, as it stood.
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

    /// The prompt that a template makes of the first turn.
    ///
    /// # Errors
    /// If the template does not [accept](PromptTemplate::accepts) the sample.
    pub fn prompt(&self, template: PromptTemplate) -> Result<String> {
        self.prompt_after(template, &[])
    }

    /// The prompt for the turn that follows the given answers, one to each turn before it: see
    /// [`PromptTemplate::apply_after`].
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt), and if all turns are answered.
    pub fn prompt_after(&self, template: PromptTemplate, answers: &[String]) -> Result<String> {
        template
            .apply_after(&self.content, answers)
            .map_err(|error| match error {
                PromptError::NoTurnLeft { template, turns } => Error::new(
                    ErrorKind::Prompt,
                    format!(
                        "the prompt template {template} asks {turns} turns of sample {}, all of which are answered; \
                         several turns of a text need the template vicuna",
                        self.id
                    ),
                ),
                error => error.into(),
            })
    }

    /// The first reference of the first turn.
    pub fn reference(&self) -> Option<&str> {
        self.references.first()?.first().map(String::as_str)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Turns;

    #[test]
    fn nothing_is_asked_after_the_last_turn() {
        let turns = Turns::new(["a?", "b?", "c?"].map(String::from).into()).unwrap();
        let sample = Sample::new("7", Content::Text(turns));
        let answers = ["a", "b", "c"].map(String::from);
        let over = sample.prompt_after(PromptTemplate::Vicuna, &answers);
        assert_eq!(
            over.unwrap_err().to_string(),
            "the prompt template vicuna asks 3 turns of sample 7, all of which are answered; \
             several turns of a text need the template vicuna"
        );
    }
}
