//! What can be wrong with a dataset, its place, or the use of a prompt template.

use std::fmt;

use cascade_config::PromptError;

/// A result whose error is [`struct@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. The message names the file or repository where it can, and the cure.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<cascade_hub::Error>>,
}

/// What an [`struct@Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or folder that cannot be read.
    Io,
    /// No such dataset, split or file, or several where there must be one.
    Place,
    /// A compressed or Parquet file that is not whole.
    Damaged,
    /// A file that is neither JSON nor of another format that is read.
    NotJson,
    /// An entry that is not what the dataset holds.
    Entry,
    /// Fewer samples than are asked for.
    Selection,
    /// A prompt that cannot be made of a sample.
    Prompt,
    /// The hub, or its cache, does not give a file.
    Hub,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self {
            kind,
            message,
            source: None,
        }
    }

    /// What it is about.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn at(kind: ErrorKind, label: &str, problem: impl fmt::Display) -> Self {
        Self::new(kind, format!("{label}: {problem}"))
    }

    /// A selection that begins after the last sample.
    pub(crate) fn offset_past_end(label: &str, offset: usize, samples: usize) -> Self {
        let has = format!("it has {samples} samples, so none is left after the first {offset}");
        Self::at(
            ErrorKind::Selection,
            label,
            format!("{has}; use a smaller offset"),
        )
    }

    /// The same of a file of the hub, which can be replaced.
    pub(crate) fn of_download(mut self) -> Self {
        if self.kind == ErrorKind::Damaged {
            self.message += ": delete this file of the cache, and the next run does so";
        }
        self
    }
}

impl From<PromptError> for Error {
    fn from(error: PromptError) -> Self {
        Self::new(ErrorKind::Prompt, error.to_string())
    }
}

impl From<cascade_hub::Error> for Error {
    fn from(error: cascade_hub::Error) -> Self {
        Self {
            kind: ErrorKind::Hub,
            message: error.to_string(),
            source: Some(Box::new(error)),
        }
    }
}

/// Where in a file an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a text file: the line on which the entry begins, from 1.
    Line(usize),
    /// In a JSON array: which of its elements, from 1.
    Element(usize),
    /// In a Parquet file: which row, from 1.
    Row(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, ":{line}"),
            Self::Element(element) => write!(f, ", element {element}"),
            Self::Row(row) => write!(f, ", row {row}"),
        }
    }
}
