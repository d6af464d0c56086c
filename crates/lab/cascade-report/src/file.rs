//! Files that are there whole or not at all.

use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file so that whoever looks, and whatever happens, finds its old bytes or its new ones.
///
/// The bytes go to a temporary file beside it, which is flushed to disk and renamed.
///
/// # Errors
/// [`Error::Io`], if the folder is not there or cannot be written; the old file is then untouched.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = temporary(path)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(Error::io("write", path))
}

/// A temporary file beside `path`, readable by those who may read what is made in this folder.
fn temporary(path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".partial-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}
