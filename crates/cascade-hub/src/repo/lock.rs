//! Who may write a file of the cache, among the processes that want to.
//!
//! Locks are the system's, on the same files that Python's library locks (`.locks` in the cache).
//! Locks vanish with their process, so that a killed one blocks nobody. The lock files stay:
//! deleting them would split those who wait.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::failure::Outcome;
use super::partial_download::{cannot_write, open_or_create};
use super::progress::Display;

const ASK_EVERY: Duration = Duration::from_millis(50);

/// What came of asking for a lock.
pub(super) enum Lock {
    /// This process has the lock until the value is dropped.
    Ours { _file: File },
    /// Somebody else has it.
    Busy,
    /// The file system has no locks.
    Unknown,
}

impl Lock {
    pub(super) fn try_take(path: &Path) -> Outcome<Self> {
        try_take(path).map_err(|error| cannot_write(path, &error))
    }

    /// Waits until nobody else has the lock.
    pub(super) fn wait(path: &Path, display: &Display) -> Outcome<Self> {
        let holder = "another process downloads the same file; waiting for it";
        display.say(&format!("{holder} ({})", path.display()));
        loop {
            match Self::try_take(path)? {
                Self::Busy => std::thread::sleep(ASK_EVERY),
                lock => return Ok(lock),
            }
        }
    }

    /// Whether nobody else writes what it protects.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours { .. })
    }
}

fn try_take(path: &Path) -> io::Result<Lock> {
    loop {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) if is_gone(&file)? => {}
            Ok(()) => return Ok(Lock::Ours { _file: file }),
            Err(TryLockError::WouldBlock) => return Ok(Lock::Busy),
            Err(TryLockError::Error(error)) => {
                return match error.kind() {
                    io::ErrorKind::Unsupported => Ok(Lock::Unknown),
                    // ENOLCK, ENOSYS, EOPNOTSUPP of network file systems.
                    _ if matches!(error.raw_os_error(), Some(37 | 38 | 95)) => Ok(Lock::Unknown),
                    _ => Err(error),
                };
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    fs::create_dir_all(cascade_core::fs::parent(path))?;
    match open_or_create(path) {
        // Another user's, in a shared cache.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            File::open(path).map_err(|_| error)
        }
        opened => opened,
    }
}

/// Whether somebody deleted the file before it was locked: the lock then guards nothing.
#[cfg(unix)]
fn is_gone(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(file.metadata()?.nlink() == 0)
}

#[cfg(not(unix))]
fn is_gone(_: &File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/etag.lock");
        let first = Lock::try_take(&path).unwrap();
        assert!(first.is_ours());
        assert!(matches!(Lock::try_take(&path).unwrap(), Lock::Busy));
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || Lock::wait(&path, &Display::new(false)).unwrap().is_ours()
        });
        drop(first);
        assert!(waiting.join().unwrap());
        // What a killed process leaves.
        assert!(path.exists() && Lock::try_take(&path).unwrap().is_ours());
    }

    #[cfg(unix)]
    #[test]
    fn deleted_lock_files_guard_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etag.lock");
        let file = open(&path).unwrap();
        assert!(!is_gone(&file).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(is_gone(&file).unwrap());
        assert!(Lock::try_take(&path).unwrap().is_ours());
    }
}
