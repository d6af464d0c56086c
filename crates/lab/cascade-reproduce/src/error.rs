//! Errors of experiments, their results, and reports on them.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// A result whose error is [`struct@Error`].
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why an experiment cannot be run, its results cannot be kept, or a report cannot be made of them.
/// The message names the experiment, file, table or plot, what is wrong with it, and how to mend
/// it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What an [`struct@Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An experiment that does not exist, or has no sound definition.
    Definition,
    /// Hyperparameters that do not fit the drafters.
    Setting,
    /// What was asked for does not fit the experiment, or lacks what it needs.
    Request,
    /// A dataset that is neither part of the program nor given.
    NoData,
    /// A folder that has results of this experiment already.
    NotResumed,
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
    /// Numbers that a formula or a simulation cannot be of.
    Theory,
    /// What models, drafters, datasets, traces or costs failed with.
    Run,
    /// What the system, or writing JSON, failed with.
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

    /// A problem at a place: a file, a folder, an experiment.
    pub(crate) fn at(kind: ErrorKind, place: impl Display, problem: impl Display) -> Self {
        Self::new(kind, format!("{place}: {problem}"))
    }

    /// A file with content that makes no sense.
    pub(crate) fn content(file: &Path, problem: impl Display) -> Self {
        Self::at(ErrorKind::Record, file.display(), problem)
    }

    /// A request that does not fit the named experiment.
    pub(crate) fn request(experiment: &str, problem: impl Display) -> Self {
        let message = format!("the experiment `{experiment}` {problem}");
        Self::new(ErrorKind::Request, message)
    }

    /// A replay without a recording.
    pub fn no_trace(experiment: &str) -> Self {
        Self::request(
            experiment,
            "replays recorded outputs and needs a trace: give it with --trace FILE. \
             For Spec-Bench, take question.jsonl from hemingkx/Spec-Bench and the answers of vicuna-7b-v1.3 without speculation \
             (vicuna-7b-v1.3-vanilla-float16-temp-0.0.jsonl), and make the trace with `cascade-lab trace import --questions … \
             --answers … --tokenizer … --output spec-bench.jsonl` (docs/traces.md)",
        )
    }

    /// A recording for an experiment that runs its target.
    pub fn needless_trace(experiment: &str) -> Self {
        let problem = "runs its target and cannot replay a trace; leave --trace out";
        Self::request(experiment, problem)
    }

    /// A dataset that is neither part of the program nor given.
    pub(crate) fn no_data(dataset: &str) -> Self {
        let message = format!(
            "the dataset {dataset} is not part of the program; give its file or folder with --data {dataset}=PATH \
             (docs/datasets.md lists where to get it), or leave it out with --dataset"
        );
        Self::new(ErrorKind::NoData, message)
    }

    /// A folder that has results, and a run that was not asked to go on with them.
    pub(crate) fn not_resumed(folder: &Path) -> Self {
        let message = format!(
            "{} has results of this experiment already; go on with --resume, or write elsewhere with --out",
            folder.display()
        );
        Self::new(ErrorKind::NotResumed, message)
    }

    pub(crate) fn theory(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Theory, message)
    }

    /// A simulation that is too short for a standard error.
    pub(crate) fn too_few(steps: u64) -> Self {
        let least = "a simulation takes at least 2 steps, or it has no standard error";
        Self::theory(format!("{least}; {steps} were asked for"))
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
        move |source| Self::at(ErrorKind::Io, attempt, source)
    }

    pub(crate) fn json(what: impl Display) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| {
            Self::at(
                ErrorKind::Io,
                format!("cannot write {what} as JSON"),
                source,
            )
        }
    }

    /// An error of another crate, with what was attempted in front of its message.
    pub(crate) fn caused(
        attempt: impl Display,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        let error = Self::at(ErrorKind::Run, attempt, &source);
        Self {
            source: Some(Box::new(source)),
            ..error
        }
    }
}

macro_rules! of_other_crates {
    ($($source:ty),* $(,)?) => {
        $(impl From<$source> for Error {
            fn from(source: $source) -> Self {
                Self {
                    kind: ErrorKind::Run,
                    message: source.to_string(),
                    source: Some(Box::new(source)),
                }
            }
        })*
    };
}

of_other_crates! {
    cascade_config::Error,
    cascade_core::Error,
    cascade_engine::Error,
    cascade_traces::CostError,
    cascade_eval::Error,
    cascade_models::Error,
    cascade_ngram::Error,
}
