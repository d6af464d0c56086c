//! What can be wrong with a prompt template or its use.

use super::{ContentKind, PromptTemplate};

/// An error of a [`PromptTemplate`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// A name that no prompt template has.
    #[error(
        "there is no prompt template {name:?}; known are {}",
        list(&PromptTemplate::ALL)
    )]
    UnknownTemplate {
        /// The name.
        name: String,
    },

    /// A template that has no place for what the content holds.
    #[error(
        "the prompt template {template} needs {}, but the sample is {found}; for that there are {}",
        kinds(*template),
        list(PromptTemplate::ALL.iter().filter(|t| t.accepts(*found)))
    )]
    TemplateMismatch {
        /// The template.
        template: PromptTemplate,
        /// Kind of the content.
        found: ContentKind,
    },

    /// A conversation that a template has no form for.
    #[error("{problem}")]
    Conversation {
        /// What the template says, and the cure.
        problem: String,
    },

    /// A conversation that is over.
    #[error(
        "the prompt template {template} asks {turns} turns, all of which are answered; \
         several turns of a text need the template vicuna"
    )]
    NoTurnLeft {
        /// The template.
        template: PromptTemplate,
        /// Number of turns that the template asks.
        turns: usize,
    },
}

/// The kinds of content that a template applies to, in one line.
fn kinds(template: PromptTemplate) -> String {
    let kinds = ContentKind::all().filter(|kind| template.accepts(*kind));
    let kinds: Vec<_> = kinds.map(|kind| kind.to_string()).collect();
    kinds.join(" or ")
}

/// Names in one line.
fn list<'a>(templates: impl IntoIterator<Item = &'a PromptTemplate>) -> String {
    let names: Vec<_> = templates.into_iter().map(|t| t.name()).collect();
    names.join(", ")
}

impl From<cascade_chat::Error> for PromptError {
    fn from(error: cascade_chat::Error) -> Self {
        Self::Conversation {
            problem: error.to_string(),
        }
    }
}
