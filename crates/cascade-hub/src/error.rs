//! What can go wrong on the way to the files of a model or a dataset.

/// A result whose error is [`struct@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. The message names the file or repository, what is wrong, and how to mend
/// it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// What an [`struct@Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Text that names neither a folder nor a model or dataset of the hub.
    Name,
    /// A folder or file that is not there, on the disk or on the hub.
    Missing,
    /// A file that cannot be read.
    Io,
    /// A file that is not what its name says, such as a pointer of git lfs.
    Damaged,
    /// An adapter, which changes the weights of another model.
    Adapter,
    /// The hub refuses: a repository is private or gated, or does not exist.
    Denied,
    /// The hub cannot be asked: no answer, `HF_HUB_OFFLINE`, or a program without the network.
    Unreachable,
    /// A download that failed, or an answer that is not to be trusted.
    Download,
    /// A variable of the environment that makes no sense.
    Setting,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self { kind, message }
    }

    /// What it is about.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}
