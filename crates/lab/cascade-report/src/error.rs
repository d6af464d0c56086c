//! Errors of results and reports.

use std::io;
use std::path::{Path, PathBuf};

use crate::figure::Flaw;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why results cannot be kept, or a report cannot be made of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column is longer or shorter than those before it.
    #[error(
        "the column \"{column}\" of \"{table}\" has {cells} cells and those before it have {rows}; \
         give one cell per row, `None` for a missing figure"
    )]
    Rows {
        /// Title of the table.
        table: String,
        /// Header of the column.
        column: String,
        /// Cells of the column.
        cells: usize,
        /// Rows of the table.
        rows: usize,
    },

    /// Two columns would have one name in the CSV file.
    #[error(
        "\"{table}\" has two columns that CSV would name `{key}`; give one of them another header"
    )]
    SameColumn {
        /// Title of the table.
        table: String,
        /// The name.
        key: String,
    },

    /// A column has intervals of an unnamed kind.
    #[error(
        "the column \"{column}\" of \"{table}\" has intervals and does not say of which kind; \
         add `.intervals(\"95 %, bootstrap over questions\")` or what they are"
    )]
    UnnamedIntervals {
        /// Title of the table.
        table: String,
        /// Header of the column.
        column: String,
    },

    /// A figure of a table or plot is invalid.
    #[error("\"{name}\" of \"{title}\", entry {entry}: {flaw}")]
    Figure {
        /// Title of the table or plot.
        title: String,
        /// Header of the column or name of the series.
        name: String,
        /// Which of its figures, from 0.
        entry: usize,
        /// What is wrong.
        flaw: Flaw,
    },

    /// There is nothing to plot.
    #[error("the plot \"{title}\" has no point; give it a series that has one")]
    EmptyPlot {
        /// Title of the plot.
        title: String,
    },

    /// A series of bars is longer or shorter than the groups.
    #[error(
        "the bars \"{series}\" of \"{title}\" are {bars} and there are {groups} groups; \
         give one per group, `None` for a missing one"
    )]
    Groups {
        /// Title of the plot.
        title: String,
        /// Name of the series.
        series: String,
        /// Its bars.
        bars: usize,
        /// Groups of the plot.
        groups: usize,
    },

    /// A log axis cannot show a number.
    #[error(
        "{value} of \"{name}\" cannot stand on the log axis of \"{title}\"; \
         leave it out or use a linear axis"
    )]
    NotPositive {
        /// Title of the plot.
        title: String,
        /// Name of the series.
        name: String,
        /// The number.
        value: f64,
    },

    /// Bars on a log axis.
    #[error(
        "the bars of \"{title}\" have no length on a log axis; use a linear axis, or lines instead"
    )]
    LogBars {
        /// Title of the plot.
        title: String,
    },

    /// A picture cannot be drawn.
    #[error("cannot draw \"{title}\": {message}")]
    Draw {
        /// Title of the plot.
        title: String,
        /// What went wrong.
        message: String,
    },

    /// A token was proposed by a level that has no name.
    #[error(
        "token {token} of step {step} of \"{sample}\" was proposed by level {level}, \
         and only {names} levels have names; name every level, the target first"
    )]
    UnnamedLevel {
        /// Title of the sample.
        sample: String,
        /// Which step, from 0.
        step: usize,
        /// Which token of it, from 0.
        token: usize,
        /// The level.
        level: usize,
        /// How many names there are.
        names: usize,
    },

    /// Text that should be a hash is not one.
    #[error("\"{text}\" is not a SHA-256; give its 64 hexadecimal digits")]
    NotAHash {
        /// The text.
        text: String,
    },

    /// A folder holds results of another experiment.
    #[error(
        "{folder} holds results of the experiment `{found}` ({found_records} records), \
         and this is `{expected}` ({expected_records} records); \
         write to another folder, or delete that one if it is no longer wanted"
    )]
    OtherExperiment {
        /// The folder.
        folder: PathBuf,
        /// Key of the experiment it holds.
        found: String,
        /// Records of that experiment.
        found_records: u64,
        /// Key of the experiment that was asked for.
        expected: String,
        /// Records of the experiment that was asked for.
        expected_records: u64,
    },

    /// A folder has results of an unknown experiment.
    #[error(
        "{folder} holds results.jsonl and no experiment.json, so it is unknown of what they are; \
         write to another folder, or delete that one if it is no longer wanted"
    )]
    UnknownExperiment {
        /// The folder.
        folder: PathBuf,
    },

    /// A folder has a file that results would replace, and is no folder of results.
    #[error(
        "{file} would be replaced, and no experiment.json beside it says that it is a result; \
         write to another folder, or move the file away"
    )]
    Foreign {
        /// The file.
        file: PathBuf,
    },

    /// A folder has no results.
    #[error("{folder} holds no experiment.json; is it a folder of results?")]
    NoExperiment {
        /// The folder.
        folder: PathBuf,
    },

    /// Another process writes to the folder.
    #[error("{file} is being written by another process; wait for it, or write to another folder")]
    Busy {
        /// The file.
        file: PathBuf,
    },

    /// A file is damaged.
    #[error(
        "line {line} of {file} cannot be read: {source}; \
         restore the file, or delete its folder and run the experiment again"
    )]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },

    /// Two records of one folder have the same index or the same id.
    #[error(
        "{file} already has the record with index {found_index} and id `{found_id}`, \
         so that one with index {index} and id `{id}` cannot be added; each is recorded once"
    )]
    Duplicate {
        /// The file.
        file: PathBuf,
        /// Index of the record that is there.
        found_index: u64,
        /// Id of the record that is there.
        found_id: String,
        /// Index of the record to be added.
        index: u64,
        /// Id of the record to be added.
        id: String,
    },

    /// A record lies outside of the experiment.
    #[error(
        "the record `{id}` has index {index}, and the experiment of {file} ends before {records}; \
         count from 0"
    )]
    OutOfRange {
        /// The file.
        file: PathBuf,
        /// Index of the record.
        index: u64,
        /// Id of the record.
        id: String,
        /// Records of the experiment.
        records: u64,
    },

    /// Two shards have the same record.
    #[error(
        "{first} and {second} both have the record with index {first_index} (`{first_id}`) or index \
         {second_index} (`{second_id}`); give each shard once, and let shards not overlap"
    )]
    Overlap {
        /// A shard.
        first: PathBuf,
        /// Index of its record.
        first_index: u64,
        /// Id of its record.
        first_id: String,
        /// Another shard.
        second: PathBuf,
        /// Index of its record.
        second_index: u64,
        /// Id of its record.
        second_id: String,
    },

    /// The shards do not make up an experiment.
    #[error(
        "the {shards} shards of `{experiment}` lack {missing} of its {records} records: index {ranges}; \
         give the folders that have them, or resume the shards that were stopped"
    )]
    Missing {
        /// Key of the experiment.
        experiment: String,
        /// How many shards were given.
        shards: usize,
        /// How many records are missing.
        missing: u64,
        /// Records of the experiment.
        records: u64,
        /// Which ones, as ranges.
        ranges: String,
    },

    /// There is nothing to merge.
    #[error("there is no shard to merge; give at least one folder of results")]
    NoShards,

    /// A folder that should be empty is not.
    #[error("{folder} already holds results; merge into a new folder")]
    Occupied {
        /// The folder.
        folder: PathBuf,
    },

    /// Something cannot be written as JSON.
    #[error("cannot write {what} as JSON: {source}")]
    Json {
        /// What it is.
        what: String,
        /// What is wrong.
        source: serde_json::Error,
    },

    /// A file or folder cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    pub(crate) fn json(what: impl Into<String>) -> impl FnOnce(serde_json::Error) -> Self {
        let what = what.into();
        move |source| Self::Json { what, source }
    }
}
