//! Output files: checks, and replacement as a whole.

use std::io::Write;
use std::path::{Path, PathBuf};

use cascade_core::fs::Output;

use crate::{Error, ErrorKind, Result};

/// Writes an output by way of a temporary file in `folder`, on the same file system.
pub(crate) fn write(folder: &Path, output: &Output, content: &[u8]) -> Result<()> {
    let written = output.begin_in(folder).and_then(|file| {
        file.file().write_all(content)?;
        file.commit()
    });
    written.map_err(Error::write(output.path()))
}

/// Replaces one of our own files by way of a temporary one in `folder`.
pub(crate) fn replace(folder: &Path, path: &Path, content: &[u8]) -> Result<()> {
    write(folder, &Output::replacing(path), content)
}

/// The path with something added to the name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Refuses a path at which no file can be written, before hours of counting.
pub(crate) fn check(path: &Path) -> Result<()> {
    let refuse = |reason: &str| {
        let message = format!("cannot write {}: {reason}", path.display());
        Err(Error::new(ErrorKind::Output, message))
    };
    if path.file_name().is_none() || path.is_dir() {
        return refuse("it is a folder; give the name of a file");
    }
    if !cascade_core::fs::parent(path).is_dir() {
        return refuse("its folder does not exist; make it first");
    }
    if path.exists() && !path.is_file() {
        return refuse("it is not an ordinary file");
    }
    Ok(())
}
