//! Reading samples from files.

#[cfg(feature = "tables")]
mod csv;
mod entry;
mod file;
mod json;
#[cfg(feature = "tables")]
mod parquet;
mod problems;
mod samples;
mod taken;

use std::borrow::Cow;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Location;
use crate::{Error, ErrorKind, Result, Sample, Selection};

use self::entry::{Entry, Record};
use self::file::Data;
#[cfg(not(feature = "tables"))]
pub(crate) use self::file::without_tables;
pub use self::problems::ProblemSet;
use self::taken::Taken;

/// The largest file of a dataset that is read, compressed or not. Larger datasets come as several
/// files in a folder, which are read one after the other.
pub const LARGEST_FILE: u64 = 4 << 30;

/// A dataset, as it is distributed: in its own files, or in the hub's Parquet export.
///
/// Each is read from JSON lines (`.jsonl`), a JSON array (`.json`) or Parquet, plain or compressed
/// by gzip, always with the dataset's own field names; MMLU from CSV as well. Text files are UTF-8,
/// with or without a byte order mark, and blank lines are passed over. The file's extension gives
/// the format or, without a known one, its first bytes do.
///
/// On the command line and in configurations a dataset goes by its [`name`](Self::name). Fields
/// that are not mentioned below are carried through in [`Sample::fields`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Dataset {
    /// `problems`, or `problems:KIND:SPLIT:SEED` with any of the three parts: word problems of the
    /// project's own, which the program makes; see [`ProblemSet`]. From a file: `question`,
    /// `choices` (four of them, or null) and `answer`, the worked solution; the category is
    /// `template`. Gives [`Content::Question`](crate::Content::Question) or
    /// [`Content::MultipleChoice`](crate::Content::MultipleChoice).
    Problems(ProblemSet),
    /// `gsm8k` (`openai/gsm8k`): `question` and `answer`. Gives
    /// [`Content::Question`](crate::Content::Question).
    Gsm8k,
    /// `mmlu` (`cais/mmlu`): `question`, `choices` and `answer`, a number from 0 to 3 or a letter;
    /// or CSV without a header, the columns of which are question, A, B, C, D and the letter of the
    /// answer. The category is the field `subject`, or the name of the CSV file without `_test`,
    /// `_dev`, `_val` or `_train`. Gives
    /// [`Content::MultipleChoice`](crate::Content::MultipleChoice).
    Mmlu,
    /// `humaneval` (`openai/openai_humaneval`): `prompt`, `canonical_solution`, the id `task_id`.
    /// Gives [`Content::Code`](crate::Content::Code).
    HumanEval,
    /// `mbpp` (`google-research-datasets/mbpp`): `text`, or `prompt` in the sanitized form, `code`,
    /// `test_list`, the id `task_id`. Gives [`Content::Task`](crate::Content::Task).
    Mbpp,
    /// `alpaca` (`tatsu-lab/alpaca`): `instruction`, `input` (may be missing or empty) and
    /// `output`. Gives [`Content::Instruction`](crate::Content::Instruction).
    Alpaca,
    /// `mt-bench` (`HuggingFaceH4/mt_bench_prompts`): `turns` or `prompt`, `category`, `reference`
    /// where there is one, the id `question_id` or `prompt_id`. Gives
    /// [`Content::Text`](crate::Content::Text) of two turns.
    MtBench,
    /// `spec-bench`: as MT-bench, of one or more turns. A question with several right answers has a
    /// list of them as its reference.
    SpecBench,
    /// `cnn-dailymail` (`abisee/cnn_dailymail`): `article`, `highlights` where there are any, `id`;
    /// or an object with a list of `articles`. Gives [`Content::Article`](crate::Content::Article).
    CnnDailyMail,
    /// `prompts`, or `prompts:FIELD`: the text or the list of turns in that field, and whatever
    /// else, all of which is carried through. Gives [`Content::Text`](crate::Content::Text).
    Prompts {
        /// The field, `prompt` by default.
        field: Cow<'static, str>,
    },
}

impl std::fmt::Display for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl std::str::FromStr for Dataset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::from_name(name).ok_or_else(|| {
            let known = Self::ALL.map(|known| known.to_string()).join(", ");
            let message = format!(
                "there is no dataset {name:?}; known are {known}, prompts:FIELD for JSON lines with the prompt in another \
                 field, and problems:KIND:SPLIT:SEED (word-problem or multiple-choice; test, validation, train, \
                 held-out or ordinary; a number)"
            );
            Error::new(ErrorKind::Missing, message)
        })
    }
}

impl TryFrom<String> for Dataset {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl From<Dataset> for String {
    fn from(value: Dataset) -> Self {
        value.to_string()
    }
}

impl Dataset {
    /// [`Prompts`](Self::Prompts) in the field `prompt`.
    pub const PROMPTS: Self = Self::Prompts {
        field: Cow::Borrowed("prompt"),
    };

    /// All datasets.
    pub const ALL: [Self; 10] = [
        Self::Problems(ProblemSet::DEFAULT),
        Self::Gsm8k,
        Self::Mmlu,
        Self::HumanEval,
        Self::Mbpp,
        Self::Alpaca,
        Self::MtBench,
        Self::SpecBench,
        Self::CnnDailyMail,
        Self::PROMPTS,
    ];

    /// The name that it goes by.
    pub fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Problems(set) => return Cow::Owned(set.to_string()),
            Self::Gsm8k => "gsm8k",
            Self::Mmlu => "mmlu",
            Self::HumanEval => "humaneval",
            Self::Mbpp => "mbpp",
            Self::Alpaca => "alpaca",
            Self::MtBench => "mt-bench",
            Self::SpecBench => "spec-bench",
            Self::CnnDailyMail => "cnn-dailymail",
            Self::Prompts { field } if field == "prompt" => "prompts",
            Self::Prompts { field } => return Cow::Owned(format!("prompts:{field}")),
        })
    }

    /// The dataset of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        if let Some(set) = ProblemSet::from_name(name) {
            return Some(Self::Problems(set));
        }
        match name.strip_prefix("prompts:") {
            Some("") => None,
            Some(field) => Some(Self::Prompts {
                field: Cow::Owned(field.to_owned()),
            }),
            None => Self::ALL.into_iter().find(|known| known.name() == name),
        }
    }

    /// The selected samples of a dataset that the program makes itself; `None` for all others.
    /// See [`ProblemSet`] for how many there are.
    ///
    /// # Errors
    /// Fewer problems than are asked for.
    pub fn made(&self, selection: Selection) -> Option<Result<Vec<Sample>>> {
        match self {
            Self::Problems(set) => Some(set.samples(selection)),
            _ => None,
        }
    }

    /// Reads the selected samples of a file; of a folder, those of all its files in the order of
    /// their names, as if they were one file. The files of a folder must be of one format.
    ///
    /// Entries after the last one within offset and limit are not looked at.
    ///
    /// # Errors
    /// A file that cannot be read; a folder without files or with files of several formats; any
    /// error of [`parse`](Self::parse).
    pub fn read(&self, path: &Path, selection: Selection) -> Result<Vec<Sample>> {
        let files = file::files(self, path)?;
        self.read_files(
            &path.display().to_string(),
            files.into_iter().map(Ok),
            selection,
        )
    }

    /// Reads the selected samples of several files, in this order, as if they were one file, which
    /// error messages about all of it call `label`. Files after the last selected sample are not
    /// asked for, so the iterator may be what fetches them.
    ///
    /// # Errors
    /// The iterator's; a file that cannot be read; any error of [`parse`](Self::parse).
    pub fn read_files(
        &self,
        label: &str,
        files: impl IntoIterator<Item = Result<PathBuf>>,
        selection: Selection,
    ) -> Result<Vec<Sample>> {
        let mut taken = Taken::new(selection);
        let mut files = files.into_iter();
        while !taken.is_complete() {
            let Some(path) = files.next().transpose()? else {
                break;
            };
            let label = path.display().to_string();
            let read = cascade_core::fs::read(&path, LARGEST_FILE);
            let bytes = read.map_err(|source| Error::located(ErrorKind::Io, &label, source))?;
            self.take(&label, bytes, &mut taken)?;
        }
        taken.finish(label)
    }

    /// Reads the selected samples of a file in memory, which error messages call `label`, and which
    /// is taken for its name.
    ///
    /// # Errors
    /// The first entry that is not what the dataset holds, up to the last within offset and limit;
    /// damaged files; too few samples.
    pub fn parse(&self, label: &str, bytes: &[u8], selection: Selection) -> Result<Vec<Sample>> {
        let mut taken = Taken::new(selection);
        self.take(label, bytes.to_vec(), &mut taken)?;
        taken.finish(label)
    }

    fn take(&self, label: &str, bytes: Vec<u8>, taken: &mut Taken) -> Result<()> {
        let mut data = Data::new(self, label, bytes)?;
        for record in data.records(self, label)? {
            // Asked before anything is judged: entries after the last selected one may be bad.
            if taken.is_complete() {
                break;
            }
            for Record { place, object } in samples::unfold(self, record?) {
                if taken.is_complete() {
                    break;
                }
                let sample = samples::sample(self, Entry::new(object), taken.seen());
                taken.push(sample.map_err(|error| bad_entry(label, place, error))?);
            }
        }
        Ok(())
    }
}

fn bad_entry(label: &str, place: Location, problem: impl Display) -> Error {
    Error::new(ErrorKind::Entry, format!("{label}{place}: {problem}"))
}

fn not_json(label: &str, place: Location, problem: impl Display) -> Error {
    Error::new(ErrorKind::NotJson, format!("{label}{place}: {problem}"))
}

#[cfg(test)]
#[cfg(feature = "tables")]
mod tests;
