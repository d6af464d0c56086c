//! One folder of results.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use super::{Experiment, Record, EXPERIMENT, RECORDS};
use crate::error::{Error, ErrorKind, Result};
use crate::report::file::write_atomically;

/// A folder of results that is open for appending, and locked against other processes.
///
/// `experiment.json` says of what they are, and `results.jsonl` has one record per line, in the
/// order in which they were appended.
#[derive(Debug)]
pub struct Results<R> {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    length: u64,
    cut: u64,
    experiment: Experiment,
    known: Known,
    records: Vec<R>,
}

impl<R: Record> Results<R> {
    /// Opens a folder, which is made if it is not there. If it holds results of this experiment,
    /// they are continued. A last line without its end, as a killed process leaves it, is cut off.
    ///
    /// # Errors
    /// If the folder holds results of another experiment or of an unknown one, a line cannot be
    /// read, two records are the same, another process has the folder open, or the system refuses.
    pub fn open(folder: impl Into<PathBuf>, experiment: &Experiment) -> Result<Self> {
        let folder = folder.into();
        claim(&folder, experiment)?;
        let path = folder.join(RECORDS);
        let mut file = open_locked(&path)?;
        let bytes = read_all(&mut file, &path)?;
        let whole = whole_lines(&bytes);
        let (records, known) = parse_all(&path, whole, experiment)?;
        let length = whole.len() as u64;
        truncate(&mut file, length).map_err(Error::io("cut the last line of", &path))?;
        Ok(Self {
            folder,
            path,
            file,
            length,
            cut: bytes.len() as u64 - length,
            experiment: experiment.clone(),
            known,
            records,
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The experiment.
    pub fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// The records, in the order of the file.
    pub fn records(&self) -> &[R] {
        &self.records
    }

    /// The records, in the order of their indices.
    pub fn into_ordered(mut self) -> Vec<R> {
        self.records.sort_by_key(Record::index);
        self.records
    }

    /// Whether there is a record with this index, so that it need not be made again.
    pub fn contains(&self, index: u64) -> bool {
        self.known.by_index.contains_key(&index)
    }

    /// The bytes of an unfinished last line that were cut off on opening.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Appends a record. When this returns, the operating system has it: it outlives a kill of this
    /// process, though perhaps not a power failure.
    ///
    /// # Errors
    /// A record that is there already or lies outside of the experiment, or what the system says.
    /// The file is then as it was.
    pub fn append(&mut self, record: R) -> Result<()> {
        let line = line(&record)?;
        self.known.insert(&self.path, &self.experiment, &record)?;
        if let Err(source) = self.file.write_all(&line) {
            self.known.remove(&record);
            // If this fails too, the unfinished line is cut off when the folder is opened again.
            let _ = truncate(&mut self.file, self.length);
            return Err(Error::io("append to", &self.path)(source));
        }
        self.length += line.len() as u64;
        self.records.push(record);
        Ok(())
    }
}

/// Indices and ids that are taken.
#[derive(Debug, Default)]
struct Known {
    by_index: HashMap<u64, String>,
    by_id: HashMap<String, u64>,
}

impl Known {
    fn insert(&mut self, file: &Path, experiment: &Experiment, record: &impl Record) -> Result<()> {
        let (index, id) = (record.index(), record.id());
        if index >= experiment.records {
            let message = format!(
                "the record `{id}` has index {index}, and the experiment of {} ends before {}; count from 0",
                file.display(),
                experiment.records
            );
            return Err(Error::new(ErrorKind::Record, message));
        }
        if let Some((found_index, found_id)) = self.find(index, id) {
            let message = format!(
                "{} already has the record with index {found_index} and id `{found_id}`, so that one with index {index} \
                 and id `{id}` cannot be added; each is recorded once",
                file.display()
            );
            return Err(Error::new(ErrorKind::Record, message));
        }
        self.by_index.insert(index, id.to_owned());
        self.by_id.insert(id.to_owned(), index);
        Ok(())
    }

    fn find(&self, index: u64, id: &str) -> Option<(u64, String)> {
        let same_index = self.by_index.get(&index).map(|id| (index, id.clone()));
        same_index.or_else(|| self.by_id.get(id).map(|&index| (index, id.to_owned())))
    }

    fn remove(&mut self, record: &impl Record) {
        self.by_index.remove(&record.index());
        self.by_id.remove(record.id());
    }
}

/// A folder of results that is only read.
#[derive(Debug)]
pub(super) struct Shard<R> {
    pub(super) folder: PathBuf,
    pub(super) experiment: Experiment,
    /// Whole lines, without their ends, as they are in the file, with the index and id of their
    /// records.
    pub(super) lines: Vec<(u64, String, Vec<u8>)>,
    record: PhantomData<R>,
}

impl<R: Record> Shard<R> {
    /// Reads a folder. An unfinished last line is passed over.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let experiment = read_experiment(folder)?.ok_or_else(|| {
            let problem = "holds no experiment.json; is it a folder of results?";
            let message = format!("{} {problem}", folder.display());
            Error::new(ErrorKind::NoResults, message)
        })?;
        let path = folder.join(RECORDS);
        let bytes = match cascade_core::fs::read(&path, LARGEST_RESULTS) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(Error::io("read", &path))?,
        };
        let whole = whole_lines(&bytes);
        let (records, _) = parse_all::<R>(&path, whole, &experiment)?;
        let lines = records.iter().zip(split(whole));
        Ok(Self {
            folder: folder.to_owned(),
            experiment,
            lines: lines
                .map(|(record, line)| (record.index(), record.id().to_owned(), line.to_owned()))
                .collect(),
            record: PhantomData,
        })
    }
}

/// Makes the folder one of this experiment, or refuses because it is one of another, or because it
/// has files that a report would replace. The folder is made if it is not there.
///
/// # Errors
/// A folder of another or an unknown experiment, foreign files, and files that cannot be read or
/// understood. Nothing is then written.
pub fn claim(folder: &Path, experiment: &Experiment) -> Result<()> {
    match read_experiment(folder)? {
        Some(found) => same_experiment(folder, &found, experiment),
        None if folder.join(RECORDS).exists() => Err(Error::other_results(
            folder,
            "holds results.jsonl and no experiment.json, so it is unknown of what they are; write to another folder, \
             or delete that one if it is no longer wanted",
        )),
        None => {
            refuse_foreign(folder, &[])?;
            fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
            write_experiment(folder, experiment)
        }
    }
}

/// Whether a file of this name is written into folders of results: the records, and parts of the
/// report.
pub fn is_result_file(name: &str) -> bool {
    name == RECORDS || crate::report::document::is_part(name)
}

/// Refuses a folder that is no experiment's and has files that results would replace: those of a
/// report, or of one of these names.
///
/// # Errors
/// Such a file, or what the system says.
pub fn refuse_foreign(folder: &Path, others: &[&str]) -> Result<()> {
    if folder.join(EXPERIMENT).exists() {
        return Ok(());
    }
    let entries = match fs::read_dir(folder) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::io("read", folder))?,
    };
    let is_result = |name: &str| others.contains(&name) || is_result_file(name);
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut foreign: Vec<_> = names
        .filter(|name| name.to_str().is_some_and(is_result))
        .collect();
    foreign.sort();
    match foreign.first() {
        None => Ok(()),
        Some(name) => Err(Error::other_results(
            &folder.join(name),
            "would be replaced, and no experiment.json beside it says that it is a result; write to another folder, \
             or move the file away",
        )),
    }
}

/// Refuses a folder of another experiment.
pub(super) fn same_experiment(
    folder: &Path,
    found: &Experiment,
    expected: &Experiment,
) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let problem = format!(
        "holds results of the experiment `{}` ({} records), and this is `{}` ({} records); write to another folder, or \
         delete that one if it is no longer wanted",
        found.key, found.records, expected.key, expected.records
    );
    Err(Error::other_results(folder, problem))
}

fn read_experiment(folder: &Path) -> Result<Option<Experiment>> {
    let path = folder.join(EXPERIMENT);
    let bytes = match cascade_core::fs::read(&path, LARGEST_EXPERIMENT) {
        Ok(bytes) => bytes,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::io("read", &path)(source)),
    };
    let experiment = serde_json::from_slice(&bytes);
    let damaged = |source: serde_json::Error| Error::damaged(&path, source.line(), source);
    experiment.map(Some).map_err(damaged)
}

fn write_experiment(folder: &Path, experiment: &Experiment) -> Result<()> {
    let mut json =
        serde_json::to_vec_pretty(experiment).map_err(Error::json("the experiment's key"))?;
    json.push(b'\n');
    write_atomically(&folder.join(EXPERIMENT), &json)
}

fn open_locked(path: &Path) -> Result<File> {
    cascade_core::fs::check_file(path).map_err(Error::io("open", path))?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path).map_err(Error::io("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let problem =
                "is being written by another process; wait for it, or write to another folder";
            let message = format!("{} {problem}", path.display());
            Err(Error::new(ErrorKind::Busy, message))
        }
        Err(TryLockError::Error(source)) => Err(Error::io("lock", path)(source)),
    }
}

fn read_all(file: &mut File, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(Error::io("read", path))?;
    Ok(bytes)
}

fn truncate(file: &mut File, length: u64) -> std::io::Result<()> {
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length)).map(|_| ())
}

/// The largest file of results that is read.
const LARGEST_RESULTS: u64 = 4 << 30;

/// The largest description of an experiment that is read.
const LARGEST_EXPERIMENT: u64 = 1 << 20;

/// The bytes up to the end of the last whole line.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte == b'\n');
    &bytes[..end.map_or(0, |end| end + 1)]
}

fn split(whole: &[u8]) -> impl Iterator<Item = &[u8]> {
    whole
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| &line[..line.len() - 1])
}

fn parse_all<R: Record>(
    path: &Path,
    whole: &[u8],
    experiment: &Experiment,
) -> Result<(Vec<R>, Known)> {
    let mut known = Known::default();
    let mut records = Vec::new();
    for (number, line) in split(whole).enumerate() {
        let damaged = |source| Error::damaged(path, number + 1, source);
        let record: R = serde_json::from_slice(line).map_err(damaged)?;
        known.insert(path, experiment, &record)?;
        records.push(record);
    }
    Ok((records, known))
}

fn line(record: &impl Record) -> Result<Vec<u8>> {
    let what = format_args!("the record `{}`", record.id());
    let json = serde_json::to_string(record).map_err(Error::json(what))?;
    Ok((cascade_core::fs::one_line(json) + "\n").into_bytes())
}
