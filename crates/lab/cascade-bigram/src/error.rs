//! Errors of counting.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// A result whose error is [`struct@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What an encoder may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a corpus cannot be counted, or its counts not be read or written. The message names the file
/// and, if there is one, the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<BoxError>,
}

/// What an [`struct@Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Text that cannot be read, or holds no document.
    Input,
    /// A line of JSONL without a text: the lines after it are read.
    Line,
    /// Bytes that are not text.
    NotText,
    /// The tokenizer refuses a document, or gives tokens that it does not have.
    Tokenizer,
    /// The table cannot be made or written.
    Table,
    /// The output path is unusable.
    Output,
    /// An unfinished count that cannot be resumed by this call.
    Checkpoint,
    /// Too little memory, or too few threads.
    Resources,
    /// A file cannot be read or written.
    Io,
    /// A bug of this crate or of the tokenizer. The other threads were stopped cleanly.
    Panicked,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self {
            kind,
            message,
            source: None,
        }
    }

    /// An input that cannot be read.
    pub(crate) fn input(message: String) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// An input that cannot be opened.
    pub(crate) fn open(file: &str) -> impl Fn(io::Error) -> Self + '_ {
        move |source| {
            let cure = "check the path and its permissions";
            Self::input(format!("cannot open {file}: {source}; {cure}"))
        }
    }

    /// An input that cannot be read on from a byte: our error if an inner reader wrapped one in
    /// [`io::Error`], otherwise the operating system's.
    pub(crate) fn read_at(file: &str, offset: u64, error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(ours) => ours,
            Err(source) => Self::input(format!("cannot read {file} at byte {offset}: {source}")),
        }
    }

    /// What it is about.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn write(file: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| {
            let kept = "nothing stands under the final name that was not there before";
            let message = format!("cannot write {}: {source}; {kept}", file.display());
            Self::new(ErrorKind::Io, message)
        }
    }

    pub(crate) fn read(file: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| {
            let message = format!("cannot read {}: {source}", file.display());
            Self::new(ErrorKind::Io, message)
        }
    }

    /// A file of an unfinished count that is not as it was written.
    pub(crate) fn damaged(file: &Path, reason: impl Display) -> Self {
        let cure = "delete its folder and start anew";
        let message = format!("{} is damaged: {reason}; {cure}", file.display());
        Self::new(ErrorKind::Checkpoint, message)
    }

    pub(crate) fn panicked() -> Self {
        let message = "a thread that counts has panicked; its message is printed above";
        Self::new(ErrorKind::Panicked, message.to_owned())
    }
}

impl From<cascade_ngram::Error> for Error {
    fn from(error: cascade_ngram::Error) -> Self {
        Self {
            kind: ErrorKind::Table,
            message: error.to_string(),
            source: Some(Box::new(error)),
        }
    }
}
