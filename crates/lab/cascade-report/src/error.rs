//! Errors of results and reports.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// A result whose error is [`struct@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why results cannot be kept, or a report cannot be made of them. The message names the file,
/// table or plot, what is wrong with it, and how to mend it.
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
    /// A table, plot or sample contradicts itself, or holds what it cannot show.
    Invalid,
    /// A plot that could not be drawn.
    Drawing,
    /// A folder or file that belongs to other results, or to something else.
    OtherResults,
    /// A folder without results.
    NoResults,
    /// Another process writes to the folder.
    Busy,
    /// A file that cannot be understood, or a record that does not belong into it.
    Record,
    /// Shards that do not make up an experiment.
    Shards,
    /// What the system, or writing JSON, failed with.
    Io,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self { kind, message }
    }

    /// What it is about.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// No shard was given to merge.
    pub fn no_shards() -> Self {
        let message = "there is no shard to merge; give at least one folder of results";
        Self::new(ErrorKind::Shards, message.to_owned())
    }

    pub(crate) fn invalid(message: String) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn flawed(title: &str, name: &str, entry: usize, flaw: String) -> Self {
        Self::invalid(format!("\"{name}\" of \"{title}\", entry {entry}: {flaw}"))
    }

    pub(crate) fn other_results(place: &Path, problem: impl Display) -> Self {
        let place = place.display();
        Self::new(ErrorKind::OtherResults, format!("{place} {problem}"))
    }

    pub(crate) fn damaged(file: &Path, line: usize, source: serde_json::Error) -> Self {
        let file = file.display();
        let message = format!(
            "line {line} of {file} cannot be read: {source}; restore the file, or delete its folder and run the \
             experiment again"
        );
        Self::new(ErrorKind::Record, message)
    }

    pub(crate) fn io(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let attempt = format!("cannot {action} {}", path.display());
        move |source| Self::new(ErrorKind::Io, format!("{attempt}: {source}"))
    }

    pub(crate) fn json(what: impl Display) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| {
            let message = format!("cannot write {what} as JSON: {source}");
            Self::new(ErrorKind::Io, message)
        }
    }
}
