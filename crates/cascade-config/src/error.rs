//! What can be wrong with a configuration.

use std::path::PathBuf;

use cascade_models::{DType, DeviceSpec, FreeMemory, MemoryEstimate};

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Every message begins with the name of the configuration, or the text in
/// question.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}; check the path", file.display())]
    Unreadable {
        /// The configuration file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },

    /// The text is not a configuration: not YAML, an unknown key, a value of the wrong type.
    #[error("{file}: {source}; see configs/demo-t5.yaml for a commented example")]
    Syntax {
        /// The configuration.
        file: String,
        /// The parser's error, with line and column.
        source: serde_yaml::Error,
    },

    /// An entry that is not valid.
    #[error("{file}: {key}: {problem}; {cure}")]
    Entry {
        /// The configuration.
        file: String,
        /// The key.
        key: String,
        /// What is wrong.
        problem: String,
        /// How to fix it.
        cure: String,
    },

    /// A setting of a command line that cannot be used.
    #[error("{0}")]
    Override(String),

    /// Sampling out of its range.
    #[error(transparent)]
    Sampling(#[from] cascade_core::InvalidSampling),

    /// A text that does not name a model.
    #[error("`{text}`: {problem}; {cure}")]
    Source {
        /// The text.
        text: String,
        /// What is wrong.
        problem: String,
        /// How to fix it.
        cure: String,
    },

    /// A device that is not there.
    #[error(transparent)]
    Device(cascade_models::Error),

    /// Costs of forwards that are not those of the cascade's models.
    #[error(transparent)]
    Costs(crate::CostError),

    /// Parts of the cascade that do not fit each other.
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

    /// Models that do not fit into the free memory of their device together.
    #[error(
        "{file}: {models} take about {needed} on {device}, and {free}; take smaller models, {}a shorter \
         `max_new_tokens`, or `device:` another one for some of the models, or load them all the same with \
         `--allow-memory-overcommit` (CASCADE_ALLOW_MEMORY_OVERCOMMIT=1)",
        smaller.map(|smaller| format!("`dtype: {smaller}`, ")).unwrap_or_default()
    )]
    Memory {
        /// The configuration.
        file: String,
        /// Names of the models.
        models: String,
        /// What they take together.
        needed: MemoryEstimate,
        /// Where.
        device: DeviceSpec,
        /// A type of weights that take less.
        smaller: Option<DType>,
        /// What can be had there.
        free: Box<FreeMemory>,
    },

    /// A statistical drafter cannot be opened: its table cannot be loaded, most often.
    #[error("{file}: {key}: {source}")]
    Drafter {
        /// The configuration.
        file: String,
        /// The key that is at fault.
        key: String,
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// A drafter has another vocabulary.
    #[error(
        "{file}: drafter `{drafter}` has another vocabulary than target `{target}` \
         ({difference}): its drafts would mean other words; use models of one family, \
         or Max-Gram alone, which drafts for any model"
    )]
    Vocabulary {
        /// The configuration.
        file: String,
        /// Name of the drafter.
        drafter: String,
        /// Name of the target.
        target: String,
        /// The first token that differs, or the beginnings of both fingerprints.
        difference: String,
    },

    /// Chat templates of a model that cannot be read.
    #[error(transparent)]
    Chat(#[from] cascade_chat::Error),

    /// A configuration that has no form as a file.
    #[error("{file}: it cannot be written: {problem}")]
    Unwritable {
        /// The configuration.
        file: String,
        /// What has no form.
        problem: String,
    },
}

/// What an [`enum@Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file cannot be read.
    Io,
    /// Text that is not a configuration, or an entry that is not valid.
    Entry,
    /// Models and settings that do not fit each other.
    Mismatch,
    /// A model, or what a drafter needs, cannot be loaded; the source says more.
    Load,
    /// Models that do not fit into memory together.
    Memory,
    /// A device that is not there.
    Device,
    /// A configuration that has no form as a file.
    Unwritable,
}

impl Error {
    /// What it is about.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreadable { .. } => ErrorKind::Io,
            Self::Cascade { .. } | Self::Vocabulary { .. } => ErrorKind::Mismatch,
            Self::Model { .. } | Self::Drafter { .. } | Self::Chat(_) => ErrorKind::Load,
            Self::Memory { .. } => ErrorKind::Memory,
            Self::Device(_) => ErrorKind::Device,
            Self::Unwritable { .. } => ErrorKind::Unwritable,
            _ => ErrorKind::Entry,
        }
    }

    /// What is wrong with an entry of a configuration.
    pub(crate) fn entry(
        label: &str,
        key: impl Into<String>,
        problem: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self::Entry {
            file: label.to_owned(),
            key: key.into(),
            problem: problem.into(),
            cure: cure.into(),
        }
    }

    /// What is wrong with a model of a configuration.
    pub(crate) fn model(label: &str, key: &str, source: cascade_models::Error) -> Self {
        let key = match source {
            cascade_models::Error::Device { .. } => "device",
            _ => key,
        };
        Self::Model {
            file: label.to_owned(),
            key: key.to_owned(),
            source: Box::new(source),
        }
    }

    /// What is wrong with the cascade of a configuration.
    pub(crate) fn cascade(label: &str, source: impl Into<cascade_engine::Error>) -> Self {
        Self::Cascade {
            file: label.to_owned(),
            source: Box::new(source.into()),
        }
    }
}
