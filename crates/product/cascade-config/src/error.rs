//! What can be wrong with a configuration, or with the place of a dataset.

use std::path::PathBuf;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Of a configuration, every message begins with its name or the text in question; of a
/// dataset, with the file or repository where it can.
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

    /// A dataset without a repository of its own on the hub.
    #[error("the dataset {dataset} has no repository of its own on the hub; give a file, or another repository as hub:org/name")]
    NotOnHub {
        /// Name of the dataset.
        dataset: String,
    },

    /// Files that a repository of the hub does not have.
    #[error("{repo} has no {wanted}; it has {}; give one of these: hub:org/name/SPLIT, or a file's name", listed(found))]
    NoSplit {
        /// The repository, with its revision.
        repo: String,
        /// The split, file or pattern that was asked for.
        wanted: String,
        /// Its splits that are in Parquet files.
        found: Vec<String>,
    },

    /// A repository of which one split must be named.
    #[error("{repo} has not one split in Parquet files, but {}; name a split or a file: hub:org/name/SPLIT", listed(found))]
    WhichSplit {
        /// The repository, with its revision.
        repo: String,
        /// Its splits that are in Parquet files.
        found: Vec<String>,
    },

    /// A split of which shards are missing, from the repository or from a cache that must do without the hub.
    #[error(
        "{repo} has {found} of the {expected} shards of {split}; if this is a cache without the hub, unset HF_HUB_OFFLINE once \
         to download the others, or name the files to take: hub:org/name/FILE"
    )]
    MissingShards {
        /// The repository, with its revision.
        repo: String,
        /// The split.
        split: String,
        /// Number of shards that there are.
        found: usize,
        /// Number of shards that their names tell.
        expected: usize,
    },

    /// The hub, or its cache, does not give a file.
    #[error(transparent)]
    Hub(Box<cascade_models::Error>),

    /// A file of the hub that was damaged on the way.
    #[error("{0}: delete this file of the cache, and the next run does so")]
    Damaged(Box<cascade_eval::Error>),

    /// The samples cannot be read.
    #[error(transparent)]
    Samples(Box<cascade_eval::Error>),
}

impl From<cascade_eval::Error> for Error {
    fn from(error: cascade_eval::Error) -> Self {
        Self::Samples(Box::new(error))
    }
}

impl From<cascade_models::Error> for Error {
    fn from(error: cascade_models::Error) -> Self {
        Self::Hub(Box::new(error))
    }
}

/// So many names are enough to see how the others go on.
const LISTED: usize = 20;

fn listed(names: &[String]) -> String {
    match names.len() {
        0 => "no Parquet files".to_owned(),
        n if n > LISTED => format!("{} and {} more", names[..LISTED].join(", "), n - LISTED),
        _ => names.join(", "),
    }
}
