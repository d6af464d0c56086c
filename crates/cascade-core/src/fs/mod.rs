//! Files that are written whole or not at all, and files of others, read within bounds.
//!
//! A reader of the path sees the old content or the new one, never a part of it, whatever happens
//! to the writer: the new content goes to a temporary file, which is flushed to disk and then
//! renamed. [`write()`] does this for bytes in memory, [`AtomicFile`] for content that is written
//! piece by piece.
//!
//! An [`Output`] is a file that a user has named to be written: it is checked before the work
//! begins, so that neither a file that exists nor an input is lost.
//! [`open`], [`read()`], [`read_text`] and [`read_line`] read what may come from anybody: no pipes
//! or devices without an end, no more bytes than the caller expects of such a file, and texts in
//! UTF-8 with or without a byte order mark. [`Inflated`] stops decompression that is out of all
//! proportion.

mod inflation;
mod input;
mod leftovers;
mod one_line;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use leftovers::Living;
use tempfile::NamedTempFile;

mod output;

pub use inflation::{
    Compressed, CountedReader, FREE_INFLATION, Inflated, Inflation, MAX_INFLATION,
};
pub use input::{
    MIB, UTF8_MARK, check_file, open, read, read_line, read_text, text, wide_encoding,
};
pub use leftovers::{remove_leftovers, remove_temporaries};
pub use one_line::one_line;
pub use output::{Existing, Output, OutputError};

/// Names of temporary files begin with this. One that no process holds a lock of is left over from
/// one that was killed: [`remove_leftovers`] removes it.
pub const TEMPORARY_PREFIX: &str = ".cascade-partial-";

/// Replaces the content of the file at `path`, or creates the file.
///
/// A new file has the permissions that [`File::create`] gives.
///
/// # Errors
/// A folder that does not exist or cannot be written to, a path that is a folder, a full disk. The
/// old file is then unchanged and the temporary file is removed.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let output = AtomicFile::create(path)?;
    output.file().write_all(bytes)?;
    output.commit()
}

/// A file that takes its place when it is [committed](Self::commit), and is removed if it is
/// dropped.
#[derive(Debug)]
pub struct AtomicFile {
    temporary: NamedTempFile,
    /// Removes it if the process is asked to end.
    living: Living,
    path: PathBuf,
    /// Whether it may take the place of another file.
    replaces: bool,
}

impl AtomicFile {
    /// Begins the file that will stand at `path`, beside it.
    ///
    /// # Errors
    /// A path without a file name, and what [`File::create_new`] reports.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        Self::create_in(parent(path), path)
    }

    /// As [`create`](Self::create), with the temporary file in `folder`, which must be on the same
    /// file system as `path`.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_in(folder: impl AsRef<Path>, path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        if path.file_name().is_none() {
            let reason = "the path does not end with the name of a file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let temporary = leftovers::temporary(folder.as_ref())?;
        Ok(Self {
            living: Living::new(temporary.path()),
            temporary,
            path: path.to_owned(),
            replaces: true,
        })
    }

    /// Lets [`commit`](Self::commit) fail if something has appeared at the path.
    #[must_use]
    pub fn replacing_nothing(mut self) -> Self {
        self.replaces = false;
        self
    }

    /// The file, to be written to.
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Where the file is until it is committed.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Flushes the file to disk and gives it its name, which it then keeps even if the power fails.
    ///
    /// # Errors
    /// A disk that is full or fails, a path that is a folder;
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if it is to [replace
    /// nothing](Self::replacing_nothing). What stood at the path is unchanged.
    pub fn commit(self) -> io::Result<()> {
        self.file().sync_all()?;
        if self.replaces {
            self.temporary.persist(&self.path).map(drop)?
        } else {
            persist_new(self.temporary, &self.path)?
        }
        drop(self.living);
        sync_folder(parent(&self.path));
        Ok(())
    }
}

/// Gives a file its name unless that is taken. Some file systems cannot do so in one step.
fn persist_new(file: NamedTempFile, path: &Path) -> io::Result<()> {
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(failed) if path.symlink_metadata().is_ok() => {
            let _ = failed.file.close();
            Err(io::ErrorKind::AlreadyExists.into())
        }
        Err(failed) => failed.file.persist(path).map(drop).map_err(Into::into),
    }
}

/// The folder that a file is in: `.` for a bare name.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Makes the new name last, where the system supports it. The content is on the disk already.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn replaces_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), [path]);
    }

    #[test]
    fn dropped_files_were_never_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"old").unwrap();
        let output = AtomicFile::create(&path).unwrap();
        output.file().write_all(b"new").unwrap();
        assert_eq!(names(folder.path()).len(), 2);
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), [path]);
    }

    #[test]
    fn what_appears_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let output = AtomicFile::create(&path).unwrap().replacing_nothing();
        output.file().write_all(b"ours").unwrap();
        fs::write(&path, b"another's").unwrap();
        let error = output.commit().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"another's");
        assert_eq!(names(folder.path()), [path]);
    }

    #[test]
    fn refuses_what_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(folder.path().join("no/where"), b"").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let error = write(folder.path().join(".."), b"").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        fs::create_dir(folder.path().join("folder")).unwrap();
        write(folder.path().join("folder"), b"").unwrap_err();
        assert_eq!(names(folder.path()), [folder.path().join("folder")]);
    }

    #[cfg(unix)]
    #[test]
    fn gives_the_usual_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            let metadata = fs::metadata(folder.path().join(name)).unwrap();
            metadata.permissions().mode()
        };
        File::create(folder.path().join("usual")).unwrap();
        write(folder.path().join("ours"), b"").unwrap();
        assert_eq!(mode("ours"), mode("usual"));
    }
}
