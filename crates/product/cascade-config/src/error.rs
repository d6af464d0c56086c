//! What can be wrong with a configuration.

use std::path::PathBuf;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Every message begins with the name of the configuration, or the text in question.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}; check the path", file.display())]
    Unreadable {
        /// The configuration file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// The text is no configuration: not YAML, an unknown key, a value of the wrong kind.
    #[error("{file}: {source}; see configs/demo-t5.yaml for a commented example")]
    Syntax {
        /// The configuration.
        file: String,
        /// What the parser said, with line and column.
        source: serde_yaml::Error,
    },

    /// An entry that says nothing or too much.
    #[error("{file}: {key}: {problem}; {cure}")]
    Entry {
        /// The configuration.
        file: String,
        /// The key.
        key: String,
        /// What is wrong.
        problem: String,
        /// How to mend it.
        cure: String,
    },

    /// A text that names no model.
    #[error("`{text}`: {problem}; {cure}")]
    Source {
        /// The text.
        text: String,
        /// What is wrong.
        problem: String,
        /// How to mend it.
        cure: String,
    },

    /// The cascade does not fit together.
    #[error("{file}: {source}")]
    Cascade {
        /// The configuration.
        file: String,
        /// What is wrong.
        source: Box<cascade_engine::Error>,
    },

    /// A model cannot be loaded.
    #[error("{file}: {key}: {source}")]
    Model {
        /// The configuration.
        file: String,
        /// The key that names the model.
        key: String,
        /// What is wrong.
        source: Box<cascade_models::Error>,
    },

    /// A bigram table cannot be loaded.
    #[error("{file}: {key}: {source}")]
    Table {
        /// The configuration.
        file: String,
        /// The key that names the table.
        key: String,
        /// What is wrong.
        source: Box<cascade_ngram::Error>,
    },

    /// A drafter's tokenizer gives its tokens other ids.
    #[error(
        "{file}: drafter `{drafter}` has another vocabulary than target `{target}` \
         (fingerprints {found} and {expected}): its drafts would mean other words; use models of one family"
    )]
    Vocabulary {
        /// The configuration.
        file: String,
        /// Name of the drafter.
        drafter: String,
        /// Fingerprint of its vocabulary.
        found: String,
        /// Name of the target.
        target: String,
        /// Fingerprint of the target's vocabulary.
        expected: String,
    },
}
