//! Checkpoints: what a killed process leaves to resume from.
//!
//! Beside the output is a folder, `OUTPUT.checkpoint`, with runs (`run-000001`, …) and a manifest
//! that names those that count. A run is on the disk before the manifest that names it, and the
//! manifest is replaced as a whole; so whenever the process ends, the manifest and its runs cover
//! exactly the first `documents` documents of the inputs, and all other files of the folder can be
//! ignored. Once the output is written, the manifest is removed first.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::merge::{FAN_IN, Merge};
use crate::output::{replace, with_suffix};
use crate::run::{Run, RunReader, RunWriter};
use crate::{Error, ErrorKind, Result};

const MANIFEST: &str = "manifest.json";
const LOCK: &str = "lock";
const RUN: &str = "run-";
// Version 1 had other keys in its runs.
const FORMAT: u32 = 2;

/// The state of a count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u32,
    /// The command and the vocabulary, which must be the same when it is resumed.
    command: String,
    /// How many documents, from the first on, have been counted.
    pub(crate) documents: u64,
    /// The number of tokens in them.
    pub(crate) tokens: u64,
    /// SHA-256 of them.
    pub(crate) digest: String,
    /// Whether these are all documents.
    pub(crate) finished: bool,
    pub(crate) runs: Vec<Run>,
}

/// The folder in which runs are written.
#[derive(Debug)]
pub(crate) struct RunFolder {
    folder: PathBuf,
    next: AtomicU64,
}

impl RunFolder {
    /// A new run, which is ignored until it is [committed](Checkpoint::commit). From any
    /// thread.
    pub(crate) fn new_run(&self) -> Result<RunWriter> {
        let number = self.next.fetch_add(1, Relaxed);
        RunWriter::create(&self.folder, name_of(number))
    }
}

/// The folder of a count, locked against other processes.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    folder: PathBuf,
    _lock: File,
    runs: Arc<RunFolder>,
    pub(crate) manifest: Manifest,
    /// Whether the manifest is on the disk.
    committed: bool,
}

/// The largest manifest that is read.
const LARGEST_MANIFEST: u64 = 64 << 20;

/// The manifest of a count, if it may go on.
fn continued(found: Manifest, folder: &Path, command: &str, resume: bool) -> Result<Manifest> {
    let folder = folder.display();
    let message = if !resume {
        format!(
            "{folder} holds an unfinished count of {} documents; go on with it by --resume, or delete the folder to \
             start anew",
            found.documents
        )
    } else if found.command != command || found.format != FORMAT {
        format!(
            "{folder} is of another command and cannot be resumed by this one: it was {:?}, this is {command:?}; give the \
             same command, or delete the folder to start anew",
            found.command
        )
    } else {
        return Ok(found);
    };
    Err(Error::new(ErrorKind::Checkpoint, message))
}

impl Checkpoint {
    /// Makes the folder for an output, or opens it.
    ///
    /// # Errors
    /// An unfinished count that is not to be resumed, or is of another command; a folder that
    /// another process uses.
    pub(crate) fn open(output: &Path, command: &str, resume: bool) -> Result<Self> {
        let folder = with_suffix(output, ".checkpoint");
        fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        let lock = lock(&folder)?;
        let found = read(&folder.join(MANIFEST))?;
        let committed = found.is_some();
        let manifest = match found {
            None => Manifest {
                format: FORMAT,
                command: command.to_owned(),
                ..Manifest::default()
            },
            Some(found) => continued(found, &folder, command, resume)?,
        };
        let next = manifest.runs.iter().map(number).max();
        let runs = RunFolder {
            folder: folder.clone(),
            next: AtomicU64::new(next.map_or(0, |n| n + 1)),
        };
        let checkpoint = Self {
            runs: Arc::new(runs),
            folder,
            _lock: lock,
            manifest,
            committed,
        };
        checkpoint.remove_runs(|name| checkpoint.manifest.runs.iter().all(|r| r.file != name));
        Ok(checkpoint)
    }

    /// The folder. Outputs are begun in it, so that they go with it if the process is killed.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn runs(&self) -> Arc<RunFolder> {
        self.runs.clone()
    }

    /// Replaces the manifest.
    pub(crate) fn commit(&mut self, manifest: Manifest) -> Result<()> {
        let json = serde_json::json!(manifest).to_string();
        let path = self.folder.join(MANIFEST);
        replace(&self.folder, &path, json.as_bytes())?;
        self.manifest = manifest;
        self.committed = true;
        Ok(())
    }

    /// Merges runs until there are few enough to be read at once. Safe to kill and repeat.
    pub(crate) fn merge_to_few(&mut self) -> Result<()> {
        while self.manifest.runs.len() > FAN_IN {
            let mut manifest = self.manifest.clone();
            let old: Vec<Run> = manifest.runs.drain(..FAN_IN).collect();
            let mut writer = self.runs.new_run()?;
            for count in self.merge(&old)? {
                writer.push(count?)?;
            }
            manifest.runs.push(writer.finish()?);
            self.commit(manifest)?;
            self.remove_runs(|name| old.iter().any(|run| run.file == name));
        }
        Ok(())
    }

    /// All that has been counted, sorted. After [`merge_to_few`](Self::merge_to_few).
    pub(crate) fn counts(&self) -> Result<Merge<RunReader>> {
        self.merge(&self.manifest.runs)
    }

    fn merge(&self, runs: &[Run]) -> Result<Merge<RunReader>> {
        let opened = runs.iter().map(|run| RunReader::open(&self.folder, run));
        Merge::new(opened.collect::<Result<_>>()?)
    }

    /// Removes the folder: the output is written. A failure costs disk space only.
    pub(crate) fn remove(self) {
        let _ = fs::remove_file(self.folder.join(MANIFEST));
        self.remove_files();
    }

    /// Removes the folder if it holds nothing that could be resumed.
    pub(crate) fn remove_if_useless(self) {
        if !self.committed {
            self.remove_files();
        }
    }

    fn remove_files(self) {
        self.remove_runs(|_| true);
        let _ = fs::remove_file(self.folder.join(LOCK));
        // Files of others are never removed; the folder then stays.
        let _ = fs::remove_dir(&self.folder);
    }

    fn remove_runs(&self, condemned: impl Fn(&str) -> bool) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_leftover = name.starts_with(cascade_core::fs::TEMPORARY_PREFIX);
            if is_leftover || (name.starts_with(RUN) && condemned(name)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// An operating system lock: it ends with the process, however that ends.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(Error::write(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let problem = "is in use by another process that writes the same table; wait for it";
            let message = format!("{} {problem}", folder.display());
            Err(Error::new(ErrorKind::Checkpoint, message))
        }
        // Some network file systems have no locks. The user must then start one process only.
        Err(TryLockError::Error(_)) => Ok(file),
    }
}

fn read(path: &Path) -> Result<Option<Manifest>> {
    let json = match cascade_core::fs::read(path, LARGEST_MANIFEST) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(Error::read(path))?,
    };
    let damaged = |error| Error::damaged(path, error);
    let manifest: Manifest = serde_json::from_slice(&json).map_err(damaged)?;
    // Names become paths, so they must be checked.
    match manifest
        .runs
        .iter()
        .find(|run| name_of(number(run)) != run.file)
    {
        None => Ok(Some(manifest)),
        Some(run) => {
            let reason = format!("{:?} is not the name of a run", run.file);
            Err(Error::damaged(path, reason))
        }
    }
}

fn name_of(number: u64) -> String {
    format!("{RUN}{number:06}")
}

fn number(run: &Run) -> u64 {
    run.file
        .strip_prefix(RUN)
        .and_then(|number| number.parse().ok())
        .unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_run(checkpoint: &Checkpoint, manifest: &mut Manifest, counts: &[(u64, u64)]) {
        let mut writer = checkpoint.runs.new_run().unwrap();
        for count in counts {
            writer.push(*count).unwrap();
        }
        manifest.runs.push(writer.finish().unwrap());
    }

    #[test]
    fn tells_what_was_committed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("table");
        let open = |resume| Checkpoint::open(&output, "count", resume);
        let mut checkpoint = open(false).unwrap();
        let busy = open(false).unwrap_err().to_string();
        assert!(busy.contains("in use by another process"), "{busy}");
        let mut manifest = checkpoint.manifest.clone();
        manifest.documents = 7;
        for run in 0..FAN_IN as u64 + 3 {
            add_run(&checkpoint, &mut manifest, &[(run, 1), (1000, 1)]);
        }
        checkpoint.commit(manifest.clone()).unwrap();
        add_run(&checkpoint, &mut manifest, &[(5, 5)]);
        drop(checkpoint);

        let error = open(false).unwrap_err().to_string();
        assert!(
            error.contains("of 7 documents") && error.contains("--resume"),
            "{error}"
        );
        let other = Checkpoint::open(&output, "another", true).unwrap_err();
        assert!(other.to_string().contains("of another command"), "{other}");
        let mut checkpoint = open(true).unwrap();
        checkpoint.merge_to_few().unwrap();
        assert_eq!(checkpoint.manifest.runs.len(), 4);
        let counts: Result<Vec<_>> = checkpoint.counts().unwrap().collect();
        let counts = counts.unwrap();
        assert_eq!(counts.len(), FAN_IN + 4);
        assert_eq!(counts.last(), Some(&(1000, FAN_IN as u64 + 3)));
        // Runs, manifest, lock.
        assert_eq!(fs::read_dir(checkpoint.folder()).unwrap().count(), 6);
        checkpoint.remove();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_manifest_cannot_lead_astray() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("table");
        let place = with_suffix(&output, ".checkpoint");
        fs::create_dir(&place).unwrap();
        for manifest in [
            "",
            "{",
            r#"{"format":1,"command":"","documents":1,"tokens":1,"digest":"","finished":true,
                "runs":[{"file":"../run-000001","entries":1,"sum":1}]}"#,
        ] {
            fs::write(place.join(MANIFEST), manifest).unwrap();
            let error = Checkpoint::open(&output, "", true).unwrap_err().to_string();
            assert!(error.contains("manifest.json is damaged"), "{error}");
        }
    }
}
