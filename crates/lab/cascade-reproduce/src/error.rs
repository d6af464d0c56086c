//! What can go wrong with an experiment.

use std::io;
use std::path::{Path, PathBuf};

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that no experiment has.
    #[error("there is no experiment `{name}`; there are {}", known.join(", "))]
    UnknownExperiment {
        /// The name.
        name: String,
        /// The experiments that there are.
        known: Vec<&'static str>,
    },

    /// A file that cannot be read.
    #[error("{}: cannot be read: {source}; check the path", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A file that cannot be written.
    #[error("{}: cannot be written: {source}", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A file whose content does not make sense.
    #[error("{}: {problem}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong, and the remedy.
        problem: String,
    },

    /// A text that is not an experiment.
    #[error("{experiment}: {source}; configs/reproduce/table2.yaml is an example")]
    Syntax {
        /// The experiment.
        experiment: String,
        /// What the parser said, with line and column.
        source: serde_yaml::Error,
    },

    /// An experiment that is not valid.
    #[error("{experiment}: {problem}; {cure}")]
    Definition {
        /// The experiment.
        experiment: String,
        /// What is wrong.
        problem: String,
        /// How to mend it.
        cure: String,
    },

    /// Hyperparameters that do not fit the drafters.
    #[error(
        "the setting `{setting}` for the drafters {drafters}: {problem}; give k11, for two neural drafters k12 (a running \
         sum) and k22 as well, or a `matrix` with a row for each drafter"
    )]
    Setting {
        /// The hyperparameters.
        setting: String,
        /// The drafters.
        drafters: String,
        /// What is wrong.
        problem: String,
    },

    /// Models that lack a place of the experiment.
    #[error("{models}: the experiment `{experiment}` needs a {what}, and there is none; add one to its `drafters`")]
    NoDrafter {
        /// The models' configuration.
        models: String,
        /// The experiment.
        experiment: String,
        /// What is needed.
        what: &'static str,
    },

    /// Files with costs, but none of a model that takes part.
    #[error("--costs: no file has costs of {model}; measure them with `cascade bench model {model} --save FILE`")]
    NoCosts {
        /// The model.
        model: String,
    },

    /// A dataset that is neither part of the program nor given.
    #[error(
        "the dataset {dataset} is not part of the program; give its file or folder with --data {dataset}=PATH \
         (docs/datasets.md lists where to get it), or leave it out with --dataset"
    )]
    NoData {
        /// The dataset.
        dataset: String,
    },

    /// A dataset that the experiment does not have.
    #[error("the experiment `{experiment}` does not have the dataset {dataset}; it has {}", known.join(", "))]
    OtherDataset {
        /// The experiment.
        experiment: String,
        /// The dataset.
        dataset: String,
        /// The datasets that it has.
        known: Vec<String>,
    },

    /// A replay without a recording.
    #[error(
        "the experiment `{experiment}` replays recorded outputs and needs a trace: give it with --trace FILE. \
         For Spec-Bench, take question.jsonl from hemingkx/Spec-Bench and the answers of vicuna-7b-v1.3 without speculation \
         (vicuna-7b-v1.3-vanilla-float16-temp-0.0.jsonl), and make the trace with `cascade trace import --questions … \
         --answers … --tokenizer … --output spec-bench.jsonl` (docs/traces.md)"
    )]
    NoTrace {
        /// The experiment.
        experiment: String,
    },

    /// Samples of an experiment whose paper decodes greedily.
    #[error(
        "the experiment `{experiment}` decodes greedily, as its paper does; leave --sampled out"
    )]
    NotSampled {
        /// The experiment.
        experiment: String,
    },

    /// Trained rules for an experiment that has none.
    #[error("the experiment `{experiment}` has no trained rules; leave --rules out")]
    NeedlessRules {
        /// The experiment.
        experiment: String,
    },

    /// A folder without any of the trained rules that an experiment names.
    #[error(
        "{} has none of the trained rules of the experiment `{experiment}`, which are the folders {} in it; make them \
         with `cascade train head` and `cascade train classifier`, --out {}/NAME",
        folder.display(), wanted.join(", "), folder.display()
    )]
    NoRules {
        /// The folder.
        folder: PathBuf,
        /// The experiment.
        experiment: String,
        /// Names of folders.
        wanted: Vec<String>,
    },

    /// A trace for an experiment that runs its target.
    #[error("the experiment `{experiment}` runs its target and cannot replay a trace; leave --trace out")]
    NeedlessTrace {
        /// The experiment.
        experiment: String,
    },

    /// A tokenizer that is not the recorded target's.
    #[error(
        "{trace} was recorded with the tokenizer {expected}, and {tokenizer} is {found}; give the target's own with --tokenizer"
    )]
    OtherTokenizer {
        /// The recording.
        trace: String,
        /// Fingerprint of its vocabulary.
        expected: String,
        /// The tokenizer.
        tokenizer: String,
        /// Fingerprint of its vocabulary.
        found: String,
    },

    /// A file of samples that cannot be read.
    #[error(
        "{}, line {line}: {source}; delete the file: going on with the run (--resume) makes it again",
        file.display()
    )]
    Samples {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },

    /// A shard that is none.
    #[error("`{text}` is not a shard; give i/n with i from 1 to n, such as 1/4")]
    Shard {
        /// The text.
        text: String,
    },

    /// Results that are there already.
    #[error(
        "{} has results of this experiment already; go on with --resume, or write elsewhere with --out",
        folder.display()
    )]
    NotResumed {
        /// The folder.
        folder: PathBuf,
    },

    /// Results of another experiment.
    #[error(
        "{} holds results of the experiment `{found}`, and this is `{expected}`{changed}; write to another folder with \
         --out, or delete that one if it is no longer wanted",
        folder.display()
    )]
    OtherFolder {
        /// The folder.
        folder: PathBuf,
        /// Name of its experiment.
        found: String,
        /// Name of this experiment.
        expected: String,
        /// What differs if the names do not.
        changed: &'static str,
    },

    /// A folder that no run has made.
    #[error("{}: it is no folder of results: {problem}", folder.display())]
    NoPlan {
        /// The folder.
        folder: PathBuf,
        /// What is missing.
        problem: String,
    },

    /// A generation failed.
    #[error("{variant}, prompt {prompt}: {source}")]
    Generation {
        /// The cascade.
        variant: String,
        /// The prompt's id.
        prompt: String,
        /// What went wrong.
        source: Box<cascade_engine::Error>,
    },

    /// The models.
    #[error(transparent)]
    Config(#[from] cascade_config::Error),
    /// A model.
    #[error(transparent)]
    Models(#[from] Box<cascade_models::Error>),
    /// A bigram table.
    #[error(transparent)]
    Table(#[from] Box<cascade_ngram::Error>),
    /// A cascade.
    #[error(transparent)]
    Engine(#[from] Box<cascade_engine::Error>),
    /// Scores.
    #[error(transparent)]
    Score(#[from] cascade_core::Error),
    /// Costs.
    #[error(transparent)]
    Cost(#[from] cascade_traces::CostError),
    /// Datasets, prompts and traces.
    #[error(transparent)]
    Trace(#[from] Box<cascade_eval::Error>),
    /// Results and reports.
    #[error(transparent)]
    Report(#[from] Box<cascade_report::Error>),
}

impl Error {
    pub(crate) fn unreadable(file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Unreadable { file, source }
    }

    pub(crate) fn unwritable(file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Unwritable { file, source }
    }
}

macro_rules! boxed {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl From<$source> for Error {
            fn from(source: $source) -> Self {
                Self::$variant(Box::new(source))
            }
        })*
    };
}

boxed! {
    cascade_models::Error => Models,
    cascade_ngram::Error => Table,
    cascade_engine::Error => Engine,
    cascade_eval::Error => Trace,
    cascade_report::Error => Report,
}
