//! Reading samples from files.

mod gsm8k;
mod jsonl;
mod mmlu;
mod prompts;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::{Error, LineError, Result, Sample};

/// A format of dataset files.
///
/// Files are UTF-8, with or without a byte order mark; blank lines are passed over. On the command line and in
/// configurations a format goes by its [`name`](Self::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Dataset {
    /// `gsm8k`: one JSON object per line, with the strings `question` and `answer`. Gives [`Sample::Question`].
    Gsm8k,
    /// `mmlu`: CSV without a header; the columns are question, A, B, C, D and the letter of the answer. Gives
    /// [`Sample::MultipleChoice`].
    Mmlu,
    /// `prompts`: one JSON object per line, with the string `prompt` and whatever else. Gives [`Sample::Text`].
    Prompts,
}

named!(Dataset, UnknownDataset);

/// Which samples of a dataset to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Number of samples to pass over at the beginning.
    pub offset: usize,
    /// The most samples to take; `None` takes all.
    pub limit: Option<usize>,
}

impl Selection {
    /// Every sample.
    pub const ALL: Self = Self {
        offset: 0,
        limit: None,
    };

    /// The first samples, `limit` at most.
    pub const fn first(limit: usize) -> Self {
        Self {
            offset: 0,
            limit: Some(limit),
        }
    }
}

impl Dataset {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Gsm8k, Self::Mmlu, Self::Prompts];

    /// The name that it goes by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gsm8k => "gsm8k",
            Self::Mmlu => "mmlu",
            Self::Prompts => "prompts",
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Self::Gsm8k | Self::Prompts => "jsonl",
            Self::Mmlu => "csv",
        }
    }

    /// Reads the selected samples of a file; of a folder, those of all its `.jsonl` or `.csv` files in the order of their
    /// names, as if they were one file.
    ///
    /// Nothing after the last selected sample is looked at.
    ///
    /// # Errors
    /// A file that cannot be read, or any error of [`parse`](Self::parse).
    pub fn read(self, path: &Path, selection: Selection) -> Result<Vec<Sample>> {
        let mut taken = Taken::new(selection);
        for file in self.files(path)? {
            if taken.is_complete() {
                break;
            }
            let bytes = fs::read(&file).map_err(|source| Error::Read {
                path: file.clone(),
                source,
            })?;
            self.take(&file.display().to_string(), &bytes, &mut taken)?;
        }
        taken.finish(&path.display().to_string())
    }

    /// Reads the selected samples of a file in memory, which error messages call `label`.
    ///
    /// # Errors
    /// [`Error::Line`] for the first entry that is not what the format holds, up to the last selected one;
    /// [`Error::NoSamples`] and [`Error::OffsetPastEnd`] if there is nothing to take.
    pub fn parse(self, label: &str, bytes: &[u8], selection: Selection) -> Result<Vec<Sample>> {
        let mut taken = Taken::new(selection);
        self.take(label, bytes, &mut taken)?;
        taken.finish(label)
    }

    fn take(self, label: &str, bytes: &[u8], taken: &mut Taken) -> Result<()> {
        let text = text(label, bytes)?;
        match self {
            Self::Gsm8k => taken.all(gsm8k::samples(label, text)),
            Self::Mmlu => taken.all(mmlu::samples(label, text)),
            Self::Prompts => taken.all(prompts::samples(label, text)),
        }
    }

    /// The file, or the files of the folder.
    fn files(self, path: &Path) -> Result<Vec<PathBuf>> {
        if !path.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        let mut files = fs::read_dir(path)
            .and_then(|entries| {
                entries
                    .map(|entry| entry.map(|entry| entry.path()))
                    .collect::<std::io::Result<Vec<_>>>()
            })
            .map_err(|source| Error::Read {
                path: path.to_owned(),
                source,
            })?;
        files.retain(|file| file.extension().is_some_and(|e| e == self.extension()));
        files.sort();
        if files.is_empty() {
            return Err(Error::EmptyFolder {
                path: path.to_owned(),
                extension: self.extension(),
            });
        }
        Ok(files)
    }
}

/// Samples on their way through a selection.
struct Taken {
    selection: Selection,
    seen: usize,
    samples: Vec<Sample>,
}

impl Taken {
    fn new(selection: Selection) -> Self {
        Self {
            selection,
            seen: 0,
            samples: Vec::new(),
        }
    }

    /// Whether no further sample will be taken. One is looked at even by a limit of 0, so that an empty file is found out.
    fn is_complete(&self) -> bool {
        let full = |limit| self.samples.len() >= limit;
        self.seen > self.selection.offset && self.selection.limit.is_some_and(full)
    }

    fn all(&mut self, samples: impl Iterator<Item = Result<Sample>>) -> Result<()> {
        for sample in samples {
            // Asked before the sample is judged: entries after the last selected one may be bad.
            if self.is_complete() {
                break;
            }
            let sample = sample?;
            self.seen += 1;
            if self.seen > self.selection.offset && self.selection.limit != Some(0) {
                self.samples.push(sample);
            }
        }
        Ok(())
    }

    fn finish(self, label: &str) -> Result<Vec<Sample>> {
        let offset = self.selection.offset;
        if self.seen == 0 {
            return Err(Error::NoSamples {
                label: label.to_owned(),
            });
        }
        if self.seen <= offset {
            return Err(Error::OffsetPastEnd {
                label: label.to_owned(),
                offset,
                samples: self.seen,
            });
        }
        Ok(self.samples)
    }
}

/// The file as text, without a byte order mark.
fn text<'a>(label: &str, bytes: &'a [u8]) -> Result<&'a str> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = line_at(bytes, error.valid_up_to());
        bad_line(label, line, LineError::Utf8)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Number of the line that holds the byte at `offset`, from 1.
fn line_at(bytes: &[u8], offset: usize) -> usize {
    let before = &bytes[..offset.min(bytes.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

fn bad_line(label: &str, line: usize, error: LineError) -> Error {
    Error::Line {
        label: label.to_owned(),
        line,
        error,
    }
}

#[cfg(test)]
mod tests;
