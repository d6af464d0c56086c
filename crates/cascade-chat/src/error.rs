//! What can be wrong with a chat template or with messages.

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A template that is not valid, or is more than a template.
    #[error(
        "the chat template of {template}, line {line}: {problem}; take the template of the model's own repository, \
         or another one with --template"
    )]
    Syntax {
        /// Where the template is from.
        template: String,
        /// The line, from 1; 0 if it is not known.
        line: usize,
        /// What is wrong.
        problem: String,
    },

    /// A template that refuses the messages: its own words.
    #[error("the chat template of {template} refuses these messages: {message}")]
    Refused {
        /// Where the template is from.
        template: String,
        /// What it says.
        message: String,
    },

    /// A template that fails, or goes beyond its limits.
    #[error("the chat template of {template} fails: {problem}")]
    Render {
        /// Where the template is from.
        template: String,
        /// What is wrong.
        problem: String,
    },

    /// A file that holds no template where there should be one.
    #[error("{file}: {problem}; take the file from the model's own repository")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },

    /// A name that none of a model's templates has.
    #[error("{place} has no chat template \"{name}\"; it has {}", known.join(", "))]
    Unknown {
        /// Where templates were looked for.
        place: String,
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },

    /// A variable whose name stands for something else.
    #[error("\"{name}\" is set by the program for every template; leave it out")]
    Variable {
        /// The name.
        name: String,
    },

    /// Something that is not a message.
    #[error("{problem}; {cure}")]
    Message {
        /// What is wrong.
        problem: String,
        /// How to fix it.
        cure: &'static str,
    },
}
