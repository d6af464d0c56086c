//! What can be wrong with a dataset or a template.

use std::path::PathBuf;

use crate::named::list;
use crate::{Dataset, PromptTemplate, SampleKind};

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a [`Dataset`] or a [`PromptTemplate`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder that cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },

    /// A folder without a file of the dataset's kind.
    #[error("{}: the folder holds no .{extension} file", path.display())]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
        /// Extension of the files that were looked for.
        extension: &'static str,
    },

    /// An entry that is not what the dataset holds.
    #[error("{label}:{line}: {error}")]
    Line {
        /// Name of the file, or of what was read in its place.
        label: String,
        /// Line on which the entry begins, from 1.
        line: usize,
        /// What is wrong with it.
        error: LineError,
    },

    /// A dataset without a single entry.
    #[error("{label}: there are no samples in it")]
    NoSamples {
        /// Name of the file or folder.
        label: String,
    },

    /// A selection that begins after the last sample.
    #[error("{label}: it has {samples} samples, so none is left after the first {offset}; use a smaller offset")]
    OffsetPastEnd {
        /// Name of the file or folder.
        label: String,
        /// Number of samples that were to be passed over.
        offset: usize,
        /// Number of samples that there are.
        samples: usize,
    },

    /// A name that no dataset has.
    #[error(
        "there is no dataset format {name:?}; known are {}",
        list(Dataset::ALL.iter().map(|d| d.name()))
    )]
    UnknownDataset {
        /// The name.
        name: String,
    },

    /// A name that no prompt template has.
    #[error(
        "there is no prompt template {name:?}; known are {}",
        list(PromptTemplate::ALL.iter().map(|t| t.name()))
    )]
    UnknownTemplate {
        /// The name.
        name: String,
    },

    /// A template that has no place for what the sample holds.
    #[error(
        "the prompt template {template} needs a {}, but the sample is a {found}; for that there are {}",
        template.expects(),
        list(PromptTemplate::ALL.iter().filter(|t| t.expects() == *found).map(|t| t.name()))
    )]
    TemplateMismatch {
        /// The template.
        template: PromptTemplate,
        /// Kind of the sample.
        found: SampleKind,
    },
}

/// What is wrong with one entry of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// Bytes that are no text.
    #[error("invalid UTF-8; convert the file to UTF-8")]
    Utf8,

    /// Not JSON.
    #[error("column {column}: {message}; every line must be one JSON object")]
    Json {
        /// Where reading failed, in bytes from 1; 0 if before the first.
        column: usize,
        /// What the parser says.
        message: String,
    },

    /// JSON, but not an object.
    #[error("expected a JSON object, found {found}")]
    NotAnObject {
        /// Type of the value.
        found: &'static str,
    },

    /// An object without a field that it must have.
    #[error("there is no field {field:?}; {}", fields_there(found))]
    MissingField {
        /// Name of the field.
        field: &'static str,
        /// Names of the fields that there are.
        found: Vec<String>,
    },

    /// A field that must be text and is not.
    #[error("the field {field:?} must be a string, found {found}")]
    NotAString {
        /// Name of the field.
        field: &'static str,
        /// Type of its value.
        found: &'static str,
    },

    /// A CSV record of the wrong length.
    #[error(
        "expected 6 columns (question, A, B, C, D, answer), found {found}; \
         a field with a comma or a line break must be quoted"
    )]
    Columns {
        /// Number of columns.
        found: usize,
    },

    /// An answer that names no choice.
    #[error("the answer must be A, B, C or D, found {found:?}; the file must have no header")]
    Answer {
        /// What stands in its place.
        found: String,
    },

    /// Not CSV.
    #[error("{message}")]
    Csv {
        /// What the parser says.
        message: String,
    },
}

fn fields_there(found: &[String]) -> String {
    if found.is_empty() {
        "the object is empty".to_owned()
    } else {
        format!("the object has {}", found.join(", "))
    }
}
