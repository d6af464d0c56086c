//! What can be wrong with a trace, its making and its use.

use std::path::PathBuf;

use cascade_core::TokenId;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },

    /// A recording would overwrite something.
    #[error("{}: the file exists already; resume it, or give another name", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },

    /// Two recordings into one file.
    #[error("{}: another process is writing to it; wait for it, or give another name", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },

    /// A compressed file cannot be continued.
    #[error("{}: traces are recorded as plain JSON lines; call it .jsonl, and compress it when it is whole", path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
    },

    /// The first line is no header.
    #[error("{label}: not a trace: {reason}; the first line of a trace is a JSON object with \"format\": \"cascade-trace\"")]
    NotATrace {
        /// Name of the file.
        label: String,
        /// What the first line is instead.
        reason: String,
    },

    /// A trace of a later version of the format.
    #[error("{label}: format version {found} is not known, only {known} is; use a newer cascade")]
    Version {
        /// Name of the file.
        label: String,
        /// Version of the file.
        found: u64,
        /// The version that can be read.
        known: u64,
    },

    /// A line that holds no record of this trace.
    #[error("{label}:{line}: {problem}")]
    Line {
        /// Name of the file.
        label: String,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong, and how to mend it.
        problem: String,
    },

    /// The last line has no end.
    #[error("{label}:{line}: the last line is cut off, as by a killed recording; resume the recording, or delete the line")]
    Truncated {
        /// Name of the file.
        label: String,
        /// Number of the line, from 1.
        line: usize,
    },

    /// A header without records.
    #[error("{label}: there are no records in it")]
    NoRecords {
        /// Name of the file.
        label: String,
    },

    /// A recording is to be resumed under other circumstances.
    #[error(
        "{}: it was recorded with {field} {found}, not {expected}: one trace is of one target under one set of options; \
         give another name, or the same options",
        path.display()
    )]
    OtherHeader {
        /// The file.
        path: PathBuf,
        /// The first field that differs.
        field: String,
        /// Its value in the file.
        found: String,
        /// Its value now.
        expected: String,
    },

    /// A recording is to be resumed with other prompts.
    #[error(
        "record {index} of the trace answers another prompt (id {found} instead of {expected}, or another text); resume \
         with the dataset, selection and template that it was begun with"
    )]
    OtherPrompt {
        /// Number of the record, from 1.
        index: usize,
        /// Its id in the file.
        found: String,
        /// The id now.
        expected: String,
    },

    /// One prompt with two answers.
    #[error(
        "{label}: the records {first} and {second} have one prompt and different outputs; a greedy target says one thing \
         only: remove one of them"
    )]
    Contradiction {
        /// Name of the file.
        label: String,
        /// Id of a record.
        first: String,
        /// Id of another.
        second: String,
    },

    /// The target has something to say about this, but it was not recorded.
    #[error(
        "no record of the trace begins with this prompt and goes on like the last of these {tokens} tokens: only what was \
         recorded can be replayed"
    )]
    OffRecord {
        /// Length of the context.
        tokens: usize,
    },

    /// More was asked for than a recording of tokens holds.
    #[error(
        "a trace holds the target's tokens and no {wanted}: replay greedily (temperature 0), with the trace as target and \
         not as a drafter"
    )]
    NoProbabilities {
        /// What was asked for.
        wanted: &'static str,
    },

    /// The recording ends before the question.
    #[error("record {id} ends after {tokens} tokens, and the target may have gone on; generate no more than that")]
    PastEnd {
        /// Id of the record.
        id: String,
        /// Length of its output.
        tokens: usize,
    },

    /// A model that cannot compute in a recorded one's place.
    #[error(
        "the model cannot compute what another one said: {reason}; take one of the recorded family"
    )]
    CannotTime {
        /// What differs.
        reason: String,
    },

    /// Sampled decoding was to be recorded or replayed.
    #[error("traces are greedy: a recording of samples would say nothing about other draws; set the temperature to 0")]
    NotGreedy,

    /// A replay that is not what was recorded.
    #[error(
        "the replay of record {id} left the record at token {at} (found {found:?}, recorded {recorded:?}); were the end \
         tokens or the prompt changed?"
    )]
    Diverged {
        /// Id of the record.
        id: String,
        /// Index of the first token that differs.
        at: usize,
        /// The token of the replay.
        found: Option<TokenId>,
        /// The token of the record.
        recorded: Option<TokenId>,
    },

    /// An answer to a question that is not there.
    #[error("{label}:{line}: the answer is to question {id}, which {questions} does not have; give the questions it was recorded with")]
    NoQuestion {
        /// Name of the file of answers.
        label: String,
        /// Number of the line, from 1.
        line: usize,
        /// The question that it names.
        id: String,
        /// Name of the file of questions.
        questions: String,
    },

    /// A text whose tokens change when it goes on.
    #[error(
        "question {id}, turn {turn}: the tokens of the prompt change when the answer follows it, so what the \
         target read is unknown; is this the tokenizer it used?"
    )]
    Unstable {
        /// The question.
        id: String,
        /// The turn, from 1.
        turn: usize,
    },

    /// A template that cannot be applied.
    #[error(transparent)]
    Template(#[from] cascade_data::Error),

    /// The cascade could not be built, or failed.
    #[error(transparent)]
    Engine(#[from] cascade_engine::Error),

    /// The tokenizer failed.
    #[error("the tokenizer failed: {0}")]
    Codec(#[source] cascade_core::Error),
}

impl From<Error> for cascade_core::Error {
    fn from(error: Error) -> Self {
        Self::backend(error)
    }
}
