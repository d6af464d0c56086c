//! Errors of training.

use std::error::Error as StdError;
use std::path::Path;

/// A result whose error is [`struct@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why something cannot be trained. The message says how to mend it.
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
    /// Too few outputs to train on, to choose by and to report on.
    TooFew,
    /// Hidden states that do not fit into memory.
    TooMuch,
    /// Samples without the probabilities by which they were drawn.
    NoProbabilities,
    /// A model without hidden states or logits.
    NoHidden,
    /// Examples of one class.
    OneClass,
    /// An invalid setting.
    Setting,
    /// A drafter or a computation failed.
    Compute,
    /// A loss that grew out of bounds.
    Diverged,
    /// A checkpoint of another training.
    Checkpoint,
    /// A file that cannot be read or written.
    Io,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
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

    pub(crate) fn too_few(outputs: usize) -> Self {
        Self::new(
            ErrorKind::TooFew,
            format!(
                "{outputs} recorded outputs with tokens are too few: 10 or more are needed, so \
                 that some can be held out"
            ),
        )
    }

    pub(crate) fn too_much(outputs: usize) -> Self {
        Self::new(
            ErrorKind::TooMuch,
            format!(
                "the hidden states of more than {outputs} outputs take more than 16 GB; give \
                 fewer with --limit"
            ),
        )
    }

    pub(crate) fn no_hidden() -> Self {
        Self::new(
            ErrorKind::NoHidden,
            "the model gives no hidden states or no logits; give another",
        )
    }

    pub(crate) fn setting(what: &str, value: impl std::fmt::Display, cure: &str) -> Self {
        Self::new(ErrorKind::Setting, format!("{what} is {value}; {cure}"))
    }

    fn failed(what: &str, error: impl StdError + Send + Sync + 'static) -> Self {
        let message = format!("the {what} failed: {error}");
        Self {
            source: Some(Box::new(error)),
            ..Self::new(ErrorKind::Compute, message)
        }
    }

    pub(crate) fn io(action: &str, file: &Path, source: std::io::Error) -> Self {
        let message = format!("cannot {action} {}: {source}", file.display());
        Self {
            source: Some(Box::new(source)),
            ..Self::new(ErrorKind::Io, message)
        }
    }
}

impl From<cascade_core::Error> for Error {
    fn from(error: cascade_core::Error) -> Self {
        Self::failed("drafter", error)
    }
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::failed("computation", error)
    }
}
