//! What can be wrong with a dataset, its place, or the use of a prompt template.

use std::fmt;
use std::path::PathBuf;

use cascade_config::{PromptError, PromptTemplate};

use crate::Dataset;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Every message names the file or repository where it can, and the cure.
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
    #[error("{}: the folder holds no {} file; name the file itself", path.display(), list(extensions))]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
        /// Extensions of the files that were looked for.
        extensions: Vec<&'static str>,
    },

    /// A folder whose files may well be the same samples twice.
    #[error("{}: the folder holds files of several formats, {}; name one file", path.display(), list(extensions))]
    MixedFolder {
        /// The folder.
        path: PathBuf,
        /// Extensions of its files.
        extensions: Vec<&'static str>,
    },

    /// A compressed file that cannot be decompressed.
    #[error("{label}: not a whole gzip file: {source}; download it again")]
    Gzip {
        /// Name of the file.
        label: String,
        /// What the decompressor says.
        source: std::io::Error,
    },

    /// A Parquet file that cannot be read.
    #[error("{label}, after row {row}: not a whole Parquet file: {reason}; download it again")]
    Parquet {
        /// Name of the file.
        label: String,
        /// Number of rows that were read.
        row: usize,
        /// What the reader says.
        reason: String,
    },

    /// An entry that is not what the dataset holds.
    #[error("{label}{place}: {error}")]
    Entry {
        /// Name of the file, or of what was read in its place.
        label: String,
        /// Where in it.
        place: Place,
        /// What is wrong with the entry.
        error: EntryError,
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

    /// A random sample of more samples than there are.
    #[error("{label}: {size} samples at random were asked for, but there are {samples} to choose from; ask for fewer")]
    SampleTooLarge {
        /// Name of the file or folder.
        label: String,
        /// Number of samples that were asked for.
        size: usize,
        /// Number of samples within offset and limit.
        samples: usize,
    },

    /// A name that no dataset has.
    #[error(
        "there is no dataset {name:?}; known are {}, prompts:FIELD for JSON lines with the prompt in another field, and problems:KIND:SPLIT:SEED \
         (word-problem or multiple-choice; test, validation, train or held-out; a number)",
        list(&Dataset::ALL)
    )]
    UnknownDataset {
        /// The name.
        name: String,
    },

    /// A prompt cannot be made.
    #[error(transparent)]
    Prompt(#[from] PromptError),

    /// A conversation that is over.
    #[error(
        "the prompt template {template} asks {turns} turns of sample {id}, all of which are answered; \
         several turns of a text need the template vicuna"
    )]
    NoTurnLeft {
        /// The template.
        template: PromptTemplate,
        /// Id of the sample.
        id: String,
        /// Number of turns that the template asks.
        turns: usize,
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

    /// A split of which shards are missing, from the repository or from a cache that must do
    /// without the hub.
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
        /// Number of shards according to their names.
        expected: usize,
    },

    /// The hub, or its cache, does not give a file.
    #[error(transparent)]
    Hub(#[from] cascade_hub::Error),

    /// A file of the hub that was damaged on the way.
    #[error("{0}: delete this file of the cache, and the next run does so")]
    Damaged(Box<Error>),
}

/// Where in a file an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
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

/// What is wrong with one entry of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// Bytes that are not text.
    #[error("invalid UTF-8; convert the file to UTF-8")]
    Utf8,

    /// Text in another encoding.
    #[error("it is in {encoding}; save the file as UTF-8")]
    Encoding {
        /// Its name.
        encoding: &'static str,
    },

    /// An entry too large to be one.
    #[error(
        "a line has {bytes} bytes, and {} MiB are read at most; is the file made of lines?",
        limit >> 20
    )]
    LongLine {
        /// Its length.
        bytes: usize,
        /// The longest that is read.
        limit: usize,
    },

    /// A line that is not JSON.
    #[error("column {column}: {message}; every line must be one JSON object")]
    Json {
        /// Where reading failed, in bytes from 1; 0 if before the first.
        column: usize,
        /// What the parser says.
        message: String,
    },

    /// A file that is not a JSON array, but begins like one.
    #[error("column {column}: {message}; the file must be one JSON array of objects, or JSON objects line by line")]
    JsonArray {
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

    /// An entry without a field, or column, that it must have.
    #[error(
        "there is no field {}; {}; name the dataset that the file is of, or one of its fields as prompts:FIELD",
        quoted(fields),
        fields_there(found)
    )]
    MissingField {
        /// Names that the field may have.
        fields: Vec<String>,
        /// Names of the fields that there are.
        found: Vec<String>,
    },

    /// A field whose value is of another type than the dataset's.
    #[error("the field {field:?} must be {expected}, found {found}")]
    WrongType {
        /// Name of the field.
        field: String,
        /// What it must be.
        expected: &'static str,
        /// Type of its value.
        found: &'static str,
    },

    /// A conversation in which nothing is said.
    #[error("the field {field:?} is an empty list; a conversation needs one turn at least")]
    NoTurns {
        /// Name of the field.
        field: String,
    },

    /// A list of messages that is not a conversation to answer.
    #[error("the field \"messages\": {problem}")]
    Messages {
        /// What is wrong, and the cure.
        problem: String,
    },

    /// A multiple-choice question without four choices.
    #[error("there must be four choices, found {found}")]
    Choices {
        /// Number of choices.
        found: usize,
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
    #[error("the answer must be A, B, C or D, or in JSON and Parquet a number from 0 to 3, found {found}; a CSV file must have no header")]
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

fn quoted(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    names.join(" or ")
}

fn fields_there(found: &[String]) -> String {
    if found.is_empty() {
        "the entry is empty".to_owned()
    } else {
        format!("the entry has {}", found.join(", "))
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

/// Names in one line.
fn list(names: &[impl ToString]) -> String {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    names.join(", ")
}
