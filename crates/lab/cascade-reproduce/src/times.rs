//! Times of answers and of forwards, which are not the same in every run.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::plan::LARGEST_OWN;
use crate::record::Walltime;
use crate::{Error, Result};

/// The file of times.
pub(crate) const WALLTIME: &str = "walltime.jsonl";

/// The file of what forwards cost on this machine.
pub(crate) const COSTS: &str = "costs.json";

/// `walltime.jsonl`, open for appending.
pub(crate) struct Walltimes {
    path: PathBuf,
    file: fs::File,
}

impl Walltimes {
    /// Opens the file; a last line without its end gets one, and is passed over by [`walltimes`].
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(WALLTIME);
        let unfinished =
            fs::read(&path).is_ok_and(|bytes| bytes.last().is_some_and(|&b| b != b'\n'));
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .append(true)
            .open(&path)
            .map_err(Error::io("open", &path))?;
        let mut walltimes = Self { path, file };
        if unfinished {
            walltimes.write(b"\n")?;
        }
        Ok(walltimes)
    }

    pub(crate) fn append(&mut self, walltime: &Walltime) -> Result<()> {
        let mut line = serde_json::to_vec(walltime).unwrap_or_default();
        line.push(b'\n');
        self.write(&line)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(Error::io("append to", &self.path))
    }
}

/// The times of a folder, by prompt: the last of each. Lines that are none are passed over, since
/// times are no part of the results.
pub(crate) fn walltimes(folder: &Path) -> BTreeMap<u64, Vec<f64>> {
    let text = cascade_core::fs::read_text(folder.join(WALLTIME), LARGEST_OWN).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Walltime>(line).ok());
    lines
        .map(|walltime| (walltime.prompt, walltime.seconds))
        .collect()
}

/// Seconds of a single-row forward by place, as measured in a folder; empty if they were not.
pub(crate) fn forward_seconds(folder: &Path) -> BTreeMap<String, f64> {
    let text = cascade_core::fs::read_text(folder.join(COSTS), LARGEST_OWN).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}
