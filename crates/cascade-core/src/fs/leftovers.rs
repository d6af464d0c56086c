//! Temporary files, and those that killed processes have left.
//!
//! A process holds a lock of each of its temporary files, which ends with it however it ends. So a
//! temporary file whose lock is free is nobody's.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use same_file::Handle;
use tempfile::NamedTempFile;

use super::TEMPORARY_PREFIX;

/// The temporary files of this process.
static LIVING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn all_living() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file of this process that is still one.
#[derive(Debug)]
pub(crate) struct Living(PathBuf);

impl Living {
    pub(crate) fn new(path: &Path) -> Self {
        // The process may change its folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        all_living().push(path.clone());
        Self(path)
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        all_living().retain(|path| *path != self.0);
    }
}

/// Removes the temporary files of this process, which then has to end: for handlers of signals,
/// which run when nothing is dropped.
pub fn remove_temporaries() {
    for path in all_living().drain(..) {
        let _ = std::fs::remove_file(path);
    }
}

/// Removes the temporary files in a folder that killed processes have left, and returns them. Those
/// of living processes stay, also of other machines where the file system locks files for them.
/// What cannot be read, locked or removed stays, too; on Windows, where a lock would keep the
/// process itself from reading its file, all do.
pub fn remove_leftovers(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let folder = cfg!(unix).then(|| std::fs::read_dir(folder));
    let entries = folder.into_iter().flatten().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            is_file && name.to_string_lossy().starts_with(TEMPORARY_PREFIX)
        })
        .map(|entry| entry.path())
        .filter(|path| remove_unless_held(path).is_ok())
        .collect()
}

fn remove_unless_held(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    file.try_lock().map_err(|error| match error {
        TryLockError::Error(error) => error,
        TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
    })?;
    std::fs::remove_file(path)
}

/// A new temporary file, locked.
pub(crate) fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    loop {
        // `make_in`, because a temporary file is private by default, and this one will not be one.
        let temporary = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .make_in(folder, |path| {
                OpenOptions::new().write(true).create_new(true).open(path)
            })?;
        // Some file systems have no locks: there, nothing is ever taken for left over.
        let locked = cfg!(unix) && temporary.as_file().lock().is_ok();
        if !locked || is_still(temporary.as_file(), temporary.path()) {
            return Ok(temporary);
        }
        // Another process took it for left over before it was locked.
    }
}

fn is_still(file: &File, path: &Path) -> bool {
    let handles = (
        file.try_clone().and_then(Handle::from_file),
        Handle::from_path(path),
    );
    matches!(handles, (Ok(ours), Ok(there)) if ours == there)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fs::AtomicFile;

    #[cfg(unix)]
    #[test]
    fn only_what_nobody_holds_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let living = AtomicFile::create(at("out")).unwrap();
        let left = at(&format!("{TEMPORARY_PREFIX}abcdef"));
        for name in [left.as_path(), &at(".partial-abcdef"), &at("other")] {
            fs::write(name, "x").unwrap();
        }
        fs::create_dir(at(&format!("{TEMPORARY_PREFIX}folder"))).unwrap();
        assert_eq!(remove_leftovers(folder.path()), [left]);
        assert!(remove_leftovers(folder.path()).is_empty());
        assert!(living.temporary().exists());
        living.commit().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
        assert!(remove_leftovers(at("none")).is_empty());
    }

    #[test]
    fn a_process_that_ends_removes_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let done = AtomicFile::create(&path).unwrap();
        done.commit().unwrap();
        let begun = AtomicFile::create(&path).unwrap();
        let dropped = AtomicFile::create(&path).unwrap();
        drop(dropped);
        remove_temporaries();
        assert!(!begun.temporary().exists() && path.exists());
    }
}
