//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A file under a temporary name, which takes its final one when it is [finished](Self::finish), and is removed if it never
/// is.
pub(crate) struct Output {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    finished: bool,
}

impl Output {
    /// Begins a file that is to stand at `path`. The temporary one must be on the same disk.
    pub(crate) fn create(temporary: PathBuf, path: &Path) -> Result<Self> {
        let file = File::create(&temporary).map_err(Error::write(path))?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            file,
            finished: false,
        })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.file
            .sync_all()
            .and_then(|()| fs::rename(&self.temporary, &self.path))
            .map_err(Error::write(&self.path))?;
        self.finished = true;
        sync_folder(&self.path);
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.finished {
            // Whatever went wrong before is the error to report.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Replaces a file: whoever reads it sees the old content or the new.
pub(crate) fn replace(temporary: PathBuf, path: &Path, content: &[u8]) -> Result<()> {
    let output = Output::create(temporary, path)?;
    io::Write::write_all(&mut output.file(), content).map_err(Error::write(path))?;
    output.finish()
}

/// The path with something added to the name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Refuses a path at which no file can be written, before hours go into what should stand there.
pub(crate) fn check(path: &Path) -> Result<()> {
    let refuse = |reason| {
        Err(Error::Output {
            file: path.to_owned(),
            reason,
        })
    };
    if path.file_name().is_none() || path.is_dir() {
        return refuse("it is a folder; give the name of a file");
    }
    if !folder(path).is_dir() {
        return refuse("its folder does not exist; make it first");
    }
    if path.exists() && !path.is_file() {
        return refuse("it is not an ordinary file");
    }
    Ok(())
}

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Makes new names in a file's folder last, where the system knows how.
fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(folder(path)) {
        let _ = folder.sync_all();
    }
}
