//! A file that is not all here yet.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::etag::Etag;
use super::failure::{Failure, Outcome, shown};

/// The first bytes of a Git LFS pointer.
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// No pointer is longer.
const LONGEST_POINTER: u64 = 1024;

/// A file that is downloaded and not all here yet, beside where it will be. What there is of it
/// is kept when this is dropped, and goes on later.
pub(super) struct PartialDownload {
    path: PathBuf,
    file: File,
    length: u64,
    /// How many answers its bytes are of; two if nobody knows.
    pieces: u32,
}

impl PartialDownload {
    /// What an earlier download left, or nothing.
    pub(super) fn open(path: PathBuf) -> Outcome<Self> {
        let open = || {
            let mut file = open_or_create(&path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length))?;
            Ok((file, length))
        };
        let (file, length) = open().map_err(|error| cannot_write(&path, &error))?;
        Ok(Self {
            path,
            file,
            length,
            pieces: if length > 0 { 2 } else { 0 },
        })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether its bytes came one after the other in one answer.
    pub(super) fn is_of_one_piece(&self) -> bool {
        self.pieces < 2
    }

    /// Bytes of another answer follow.
    pub(super) fn begin_piece(&mut self) {
        self.pieces += 1;
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Outcome<()> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| cannot_write(&self.path, &error))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Throws away what there is.
    pub(super) fn restart(&mut self) -> Outcome<()> {
        self.pieces = 0;
        if self.length > 0 {
            let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
            emptied.map_err(|error| cannot_write(&self.path, &error))?;
            self.length = 0;
        }
        Ok(())
    }

    /// What is wrong with the content of the whole file, if anything.
    pub(super) fn problem(&mut self, etag: &Etag) -> Outcome<Option<String>> {
        let mut check = || {
            self.file.rewind()?;
            match etag.mismatch(&mut self.file, self.length)? {
                None => self.pointer(),
                mismatch => Ok(mismatch),
            }
        };
        check().map_err(|error| {
            Failure::Local(format!("cannot read {}: {error}", self.path.display()))
        })
    }

    fn pointer(&mut self) -> io::Result<Option<String>> {
        if self.length > LONGEST_POINTER {
            return Ok(None);
        }
        self.file.rewind()?;
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        Ok(bytes.starts_with(POINTER).then(|| {
            let text = String::from_utf8_lossy(&bytes);
            let of = text
                .lines()
                .nth(1)
                .map_or_else(String::new, |line| format!(" ({})", shown(line)));
            format!("it is a Git LFS pointer{of} and not the file that it stands for")
        }))
    }

    /// Gives the file its name.
    pub(super) fn finish(self, path: &Path) -> Outcome<()> {
        let finished = self.file.sync_all().and_then(|()| {
            drop(self.file);
            fs::rename(&self.path, path)
        });
        finished.map_err(|error| cannot_write(path, &error))
    }

    /// Deletes the file.
    pub(super) fn discard(self) {
        drop(self.file);
        let _ = fs::remove_file(&self.path);
    }
}

/// A file with whatever is in it already.
pub(super) fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true);
    options.truncate(false).open(path)
}

pub(super) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": make room, or let HF_HUB_CACHE name a folder on another disk"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ": let HF_HUB_CACHE name a folder that can be written to"
        }
        _ => "",
    };
    Failure::Local(format!("cannot write {}: {error}{hint}", path.display()))
}
