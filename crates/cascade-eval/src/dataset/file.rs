//! Files and their formats.

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use cascade_core::fs::{Compressed, Inflated};
use flate2::read::MultiGzDecoder;

use super::LARGEST_FILE;
use super::entry::Record;
use super::{bad_entry, json};
#[cfg(feature = "tables")]
use super::{csv, parquet};
use crate::error::Location;
use crate::{Dataset, Error, ErrorKind, Result};

/// The entries of a file, as far as they can be read.
pub(super) type Records<'a> = Box<dyn Iterator<Item = Result<Record>> + 'a>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    JsonLines,
    Json,
    Parquet,
}

impl Format {
    const ALL: [Self; 4] = [Self::Csv, Self::JsonLines, Self::Json, Self::Parquet];

    const fn extension(self) -> &'static str {
        match self {
            Self::Csv => ".csv",
            Self::JsonLines => ".jsonl",
            Self::Json => ".json",
            Self::Parquet => ".parquet",
        }
    }

    /// The format that the extension of a file names, compressed or not.
    fn of_name(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let matches = |format: &Self| name.ends_with(format.extension());
        Self::ALL.into_iter().find(matches)
    }

    fn of(dataset: &Dataset, name: &str, bytes: &[u8]) -> Self {
        if bytes.starts_with(b"PAR1") {
            return Self::Parquet;
        }
        match Self::of_name(name) {
            Some(Self::JsonLines) => return Self::JsonLines,
            Some(Self::Parquet) => return Self::Parquet,
            Some(Self::Csv) if *dataset == Dataset::Mmlu => return Self::Csv,
            // Many a `.json` holds JSON lines; and no other dataset has CSV.
            Some(Self::Json | Self::Csv) | None => {}
        }
        let without_mark = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let first = without_mark.iter().find(|byte| !byte.is_ascii_whitespace());
        match (dataset, first) {
            (Dataset::Mmlu, Some(byte)) if !b"[{".contains(byte) => Self::Csv,
            (_, Some(b'[')) => Self::Json,
            _ => Self::JsonLines,
        }
    }
}

/// A file, decompressed.
pub(super) struct Data {
    format: Format,
    bytes: Vec<u8>,
}

impl Data {
    pub(super) fn new(dataset: &Dataset, label: &str, bytes: Vec<u8>) -> Result<Self> {
        let compressed = bytes.starts_with(&[0x1f, 0x8b]) || label.ends_with(".gz");
        let bytes = if compressed {
            decompressed(&bytes).map_err(|source| {
                let problem = format!("not a whole gzip file: {source}; download it again");
                Error::located(ErrorKind::Damaged, label, problem)
            })?
        } else {
            bytes
        };
        Ok(Self {
            format: Format::of(dataset, label, &bytes),
            bytes,
        })
    }

    /// The entries of the file, which is of `dataset`.
    pub(super) fn records<'a>(
        &'a mut self,
        dataset: &Dataset,
        label: &'a str,
    ) -> Result<Records<'a>> {
        match self.format {
            Format::Csv | Format::Parquet => self.table(dataset, label),
            Format::Json => Ok(Box::new(json::elements(label, text(label, &self.bytes)?)?)),
            Format::JsonLines => Ok(Box::new(json::lines(label, text(label, &self.bytes)?))),
        }
    }

    #[cfg(feature = "tables")]
    fn table<'a>(&'a mut self, _: &Dataset, label: &'a str) -> Result<Records<'a>> {
        if self.format == Format::Csv {
            return Ok(Box::new(csv::records(label, text(label, &self.bytes)?)));
        }
        let bytes = std::mem::take(&mut self.bytes);
        Ok(Box::new(parquet::records(label, bytes.into())?))
    }

    #[cfg(not(feature = "tables"))]
    fn table<'a>(&'a mut self, dataset: &Dataset, label: &'a str) -> Result<Records<'a>> {
        Err(without_tables(label, dataset, label))
    }
}

/// Refuses a table in a program that reads none: `data` is what `--data` was given.
#[cfg(not(feature = "tables"))]
pub(crate) fn without_tables(label: &str, dataset: &Dataset, data: &str) -> Error {
    let problem = format!(
        "Parquet and CSV are read by cascade-lab: make prompts of it with `cascade-lab dataset \
         {dataset} --data {data} > prompts.jsonl`, and give these: `cascade run --prompts \
         prompts.jsonl`"
    );
    Error::located(ErrorKind::Format, label, problem)
}

fn decompressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut whole = Vec::new();
    let compressed = Compressed::default();
    let decoder = MultiGzDecoder::new(compressed.count(bytes));
    let read = Inflated::new(decoder, compressed)
        .take(LARGEST_FILE + 1)
        .read_to_end(&mut whole)?;
    if read as u64 > LARGEST_FILE {
        Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it decompresses to more than 4 GiB, the most that is read of one file; split it",
        ))
    } else {
        Ok(whole)
    }
}

/// The file as text, without a byte order mark.
fn text<'a>(label: &str, bytes: &'a [u8]) -> Result<&'a str> {
    if let Some(encoding) = cascade_core::fs::wide_encoding(bytes) {
        let problem = format!("it is in {encoding}; save the file as UTF-8");
        return Err(bad_entry(label, Location::Line(1), problem));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + newlines(&bytes[..error.valid_up_to()]);
        let problem = "invalid UTF-8; convert the file to UTF-8";
        bad_entry(label, Location::Line(line), problem)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Number of line feeds.
pub(super) fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// The file, or the files of the folder in the order of their names.
pub(super) fn files(dataset: &Dataset, path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let label = path.display().to_string();
    let unreadable = |source| Error::located(ErrorKind::Io, &label, source);
    let mut files = entries(path).map_err(unreadable)?;
    let formats = formats(dataset);
    let format = |file: &PathBuf| Format::of_name(&name(file)).filter(|f| formats.contains(f));
    files.retain(|file| format(file).is_some());
    files.sort();
    let there: Vec<_> = formats
        .iter()
        .filter(|known| files.iter().any(|file| format(file) == Some(**known)))
        .map(|format| format.extension())
        .collect();
    let problem = match there.len() {
        0 => {
            let known: Vec<_> = formats.iter().map(|format| format.extension()).collect();
            format!(
                "the folder holds no {} file; name the file itself",
                known.join(", ")
            )
        }
        1 => return Ok(files),
        _ => format!(
            "the folder holds files of several formats, {}; name one file",
            there.join(", ")
        ),
    };
    Err(Error::located(ErrorKind::Missing, &label, problem))
}

/// The formats in which there are files of the dataset.
fn formats(dataset: &Dataset) -> &'static [Format] {
    const ALL: [Format; 4] = Format::ALL;
    match dataset {
        Dataset::Mmlu => &ALL,
        _ => ALL.split_at(1).1,
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

fn name(file: &Path) -> Cow<'_, str> {
    file.file_name().unwrap_or_default().to_string_lossy()
}

#[cfg(test)]
#[cfg(not(feature = "tables"))]
mod tests {
    use super::*;
    use crate::Selection;

    #[test]
    fn tables_are_for_the_laboratory() {
        let read = Dataset::Gsm8k.parse("test.parquet", b"PAR1", Selection::ALL);
        let message = read.unwrap_err().to_string();
        assert!(
            message.contains("`cascade-lab dataset gsm8k --data test.parquet > prompts.jsonl`"),
            "{message}"
        );
    }
}
