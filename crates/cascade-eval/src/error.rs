//! What can go wrong with datasets, recordings and measurements.

use std::error::Error as StdError;
use std::fmt;
use std::path::Path;

/// A result whose error is [`struct@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. The message names the file, model or record where it can, and the cure.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What an [`struct@Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or folder that cannot be read or written.
    Io,
    /// A dataset, split or file that does not exist, or is not unique where it must be.
    Missing,
    /// A compressed or Parquet file that is not whole.
    Damaged,
    /// A file that is neither JSON nor of another format that is read.
    NotJson,
    /// A format that this program was built without.
    Format,
    /// An entry that is not what the dataset holds.
    Entry,
    /// Fewer samples than are asked for.
    Selection,
    /// A prompt that cannot be made of a sample.
    Prompt,
    /// The hub, or its cache, does not give a file.
    Hub,
    /// A recording would overwrite a file.
    Exists,
    /// Another process is recording into the file.
    Busy,
    /// A recording into a compressed file.
    Compressed,
    /// A file that is not a valid trace.
    Trace,
    /// A recording that is resumed with another target, other options or other prompts.
    OtherRecording,
    /// Scores that were not recorded.
    NotRecorded,
    /// A model that cannot stand for the recorded one.
    OtherModel,
    /// Scores or an acceptance that a simulated drafter does not have.
    Simulation,
    /// Sampling where greedy decoding is needed or the reverse, or samples drawn otherwise.
    Sampling,
    /// A replay whose tokens differ from the record.
    Diverged,
    /// An answer that cannot be imported.
    Answer,
    /// Records from which nothing can be learned.
    Unusable,
    /// Costs of forwards that are not those of the models, or that cannot be measured.
    Costs,
    /// A model, cascade or configuration failed.
    Generation,
}

impl Error {
    /// An error with this message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// What it is about.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// An error in a file or dataset, which the message names first.
    pub fn located(kind: ErrorKind, label: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self::new(kind, format!("{label}: {problem}"))
    }

    /// A file that the system does not read or write.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::located(ErrorKind::Io, path.display(), &source).with_source(source)
    }

    /// This error with what was worked on in front.
    #[must_use]
    pub fn at(self, at: impl Into<String>) -> Self {
        Self::new(self.kind, at).with_source(self)
    }

    /// This error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// A selection that begins after the last sample.
    pub(crate) fn offset_past_end(label: &str, offset: usize, samples: usize) -> Self {
        let problem = format!(
            "it has {samples} samples, so none is left after the first {offset}; use a smaller \
             offset"
        );
        Self::located(ErrorKind::Selection, label, problem)
    }

    /// This error about a file of the hub, which can be downloaded again.
    pub(crate) fn of_download(mut self) -> Self {
        if self.kind == ErrorKind::Damaged {
            self.message += ": delete this file of the cache, and the next run does so";
        }
        self
    }
}

impl From<Error> for cascade_core::Error {
    fn from(error: Error) -> Self {
        Self::backend(error)
    }
}

/// Errors of other crates, which keep their message and are the cause.
macro_rules! from_errors {
    ($($source:ty => $kind:ident),* $(,)?) => {$(
        impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self::new(ErrorKind::$kind, error.to_string()).with_source(error)
            }
        }
    )*};
}

from_errors! {
    cascade_config::PromptError => Prompt,
    cascade_hub::Error => Hub,
    cascade_engine::Error => Generation,
    cascade_engine::InvalidLenience => Generation,
    cascade_core::Error => Generation,
    cascade_core::InvalidSampling => Sampling,
    cascade_config::Error => Generation,
    cascade_models::Error => Generation,
}

/// Where in a file an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In a text file: the line on which the entry begins, from 1.
    Line(usize),
    /// In a JSON array: which of its elements, from 1.
    Element(usize),
    /// In a Parquet file: which row, from 1.
    #[cfg(feature = "tables")]
    Row(usize),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, ":{line}"),
            Self::Element(element) => write!(f, ", element {element}"),
            #[cfg(feature = "tables")]
            Self::Row(row) => write!(f, ", row {row}"),
        }
    }
}
