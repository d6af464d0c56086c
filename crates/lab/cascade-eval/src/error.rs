//! Errors of recording, reading and replaying traces.

use std::path::PathBuf;

use cascade_core::TokenId;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },

    /// A recording would overwrite a file.
    #[error("{}: the file exists already; give another name", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },

    /// Another process is recording into the file.
    #[error("{}: another process is writing to it; wait for it, or give another name", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },

    /// A recording into a compressed file.
    #[error("{}: traces are recorded as plain JSON Lines; use a file name ending in .jsonl, and compress the file when it is complete", path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
    },

    /// The first line is not a header.
    #[error("{label}: not a trace: {reason}; the first line of a trace is a JSON object with \"format\": \"cascade-trace\"")]
    NotATrace {
        /// Name of the file.
        label: String,
        /// What is wrong with the first line.
        reason: String,
    },

    /// A trace of a later version of the format.
    #[error("{label}: format version {found} is not supported, only {known}; use a newer version of cascade")]
    Version {
        /// Name of the file.
        label: String,
        /// Version of the file.
        found: u64,
        /// The version that can be read.
        known: u64,
    },

    /// A line that is not a valid record of this trace.
    #[error("{label}:{line}: {problem}")]
    Line {
        /// Name of the file.
        label: String,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong, and how to fix it.
        problem: String,
    },

    /// The last line does not end in a newline.
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

    /// A recording was to be resumed with other settings.
    #[error(
        "{}: it was recorded with {field} {found}, not {expected}: a trace has one target and one set of options; \
         use another file name, or the same options",
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

    /// A recording was to be resumed with other prompts.
    #[error(
        "record {index} of the trace answers another prompt (id {found} instead of {expected}, or another text); resume \
         with the dataset, selection and template of the original recording"
    )]
    OtherPrompt {
        /// Number of the record, from 1.
        index: usize,
        /// Its id in the file.
        found: String,
        /// The id now.
        expected: String,
    },

    /// One prompt has two different outputs.
    #[error(
        "{label}: records {first} and {second} have the same prompt but different outputs; a target has only one \
         output, or one for a seed: remove one of them, or make two traces of them"
    )]
    Contradiction {
        /// Name of the file.
        label: String,
        /// Id of a record.
        first: String,
        /// Id of another.
        second: String,
    },

    /// The context was not recorded.
    #[error(
        "no record of the trace matches this context of {tokens} tokens (a prompt and the beginning of its output): only \
         what was recorded can be replayed"
    )]
    OffRecord {
        /// Length of the context.
        tokens: usize,
    },

    /// Scores were requested that a recording of tokens does not contain.
    #[error(
        "a trace contains the target's tokens but no {wanted}: replay greedily (temperature 0), with the trace as target \
         and not as a drafter"
    )]
    NoProbabilities {
        /// What was requested.
        wanted: &'static str,
    },

    /// The output after the end of a truncated record was requested.
    #[error("record {id} ends after {tokens} tokens, so the next token of the target is unknown; generate no more than that")]
    PastEnd {
        /// Id of the record.
        id: String,
        /// Length of its output.
        tokens: usize,
    },

    /// A model cannot stand in for the recorded one.
    #[error(
        "the model cannot stand in for the recorded target: {reason}; use a model of the same family"
    )]
    CannotTime {
        /// What differs.
        reason: String,
    },

    /// Scores were requested that a simulated drafter does not have.
    #[error(
        "a drafter that is simulated has no {wanted}: decode greedily (temperature 0), without branches and without rules \
         that read them"
    )]
    NotSimulated {
        /// What was requested.
        wanted: &'static str,
    },

    /// An acceptance that is no probability above 0.
    #[error("a drafter's acceptance is {acceptance}; it must be above 0 and at most 1")]
    Acceptance {
        /// The probability.
        acceptance: f64,
    },

    /// A greedy recording was to be replayed by sampling.
    #[error("the recording is greedy, so what it would have sampled is unknown; set the temperature to 0")]
    NotGreedy,

    /// Probabilities of a greedy recording.
    #[error("top probabilities are those that samples are drawn from, and greedy outputs are not drawn; also give a temperature")]
    NoTop,

    /// Samples were to be recorded by a rule whose text depends on what is drafted.
    #[error("samples by the rule `{rule}` cannot be replayed, since they depend on what is drafted; use `coupled`")]
    NotCoupled {
        /// The rule.
        rule: String,
    },

    /// A sampled recording where a greedy one is needed.
    #[error("{label}: the outputs are samples ({sampling}), and greedy ones are needed here; record at temperature 0")]
    Sampled {
        /// Name of the trace.
        label: String,
        /// How they were drawn.
        sampling: String,
    },

    /// A sampled recording was to be replayed with other settings.
    #[error("the recording has {recorded}, and the replay asks for {asked}: record with the settings of the replay, or leave them out of it")]
    OtherSampling {
        /// Settings of the recording.
        recorded: String,
        /// Settings of the replay.
        asked: String,
    },

    /// A replay differs from the record.
    #[error(
        "the replay of record {id} diverged from the record at token {at} (found {found:?}, recorded {recorded:?}); were the end \
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

    /// An answer cannot be imported.
    #[error("{label}:{line}: question {id}, turn {turn}: {problem}")]
    Answer {
        /// Name of the file of answers.
        label: String,
        /// Number of the line, from 1.
        line: usize,
        /// The question.
        id: String,
        /// The turn, from 1.
        turn: usize,
        /// What is wrong, and how to fix it.
        problem: String,
    },

    /// An answer belongs to a question that does not exist.
    #[error("{label}:{line}: the answer is to question {id}, which {questions} does not contain; use the questions that the answers were recorded with")]
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

    /// A template could not be applied.
    #[error(transparent)]
    Template(#[from] cascade_data::Error),

    /// The cascade could not be built, or failed.
    #[error(transparent)]
    Engine(#[from] cascade_engine::Error),

    /// A model failed.
    #[error(transparent)]
    Scorer(#[from] cascade_core::Error),

    /// A configuration could not be read or assembled.
    #[error(transparent)]
    Config(#[from] cascade_config::Error),

    /// A model could not be loaded.
    #[error(transparent)]
    Model(#[from] cascade_models::Error),

    /// A lenience below 1.
    #[error(transparent)]
    Lenience(#[from] cascade_engine::InvalidLenience),

    /// Settings of sampling that do not fit together.
    #[error(transparent)]
    Sampling(#[from] cascade_core::InvalidSampling),

    /// The target's distribution cannot be enumerated.
    #[error(transparent)]
    Cells(#[from] crate::cells::CellsError),

    /// Times of forwards could not be measured.
    #[error("{model}")]
    Times {
        /// The model.
        model: String,
        /// Why.
        source: crate::TimesError,
    },

    /// A model of which the outputs of a trace say nothing.
    #[error("{model} {difference}: give a model of its family")]
    OtherFamily {
        /// What named the model, and its name.
        model: String,
        /// How it differs from the recorded target.
        difference: String,
    },

    /// Hidden states of another model than the recorded one.
    #[error(
        "{model} says {said} of the {output} tokens of record {id}, so it is not the model that was recorded, and its hidden \
         states are others; give that one"
    )]
    OtherTarget {
        /// The model.
        model: String,
        /// Id of the record.
        id: String,
        /// Tokens that both say.
        said: usize,
        /// Tokens of the record's output.
        output: usize,
    },

    /// Records of which nothing can be learned.
    #[error("{label}: {problem}")]
    Unusable {
        /// Name of the trace, or of what was asked for.
        label: String,
        /// What is wrong, and how to fix it.
        problem: String,
    },

    /// An error of an experiment, with what it was working on.
    #[error("{at}")]
    At {
        /// The model, record or prompt.
        at: String,
        /// What went wrong there.
        source: Box<Error>,
    },

    /// Costs that are not those of the models.
    #[error(
        "{} numbers for {models} neural models (the target and its neural drafters): {costs:?}; give one above 0 for \
         each",
        costs.len()
    )]
    Costs {
        /// What was given.
        costs: Vec<f64>,
        /// Neural models, the target included.
        models: usize,
    },

    /// The tokenizer failed.
    #[error("the tokenizer failed: {0}")]
    Codec(#[source] cascade_core::Error),
}

impl Error {
    /// The same with what was worked on in front.
    pub(crate) fn at(self, at: impl Into<String>) -> Self {
        Self::At {
            at: at.into(),
            source: Box::new(self),
        }
    }
}

impl From<Error> for cascade_core::Error {
    fn from(error: Error) -> Self {
        Self::backend(error)
    }
}
