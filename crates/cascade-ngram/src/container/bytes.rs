//! The bytes of a table.

use std::{fmt, io, path::Path};

use memmap2::Mmap;

/// The bytes of a table's file: mapped, embedded in the program, or on the heap.
pub(crate) enum Bytes {
    Mapped(Mmap),
    Static(&'static [u8]),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a file into memory, read-only.
    pub(crate) fn map(path: &Path) -> io::Result<Self> {
        let file = cascade_core::fs::open(path)?;
        // SAFETY: the map is read-only, and its bytes are untrusted at all times: every access is
        // checked against the bounds found when it was opened, and no value has to stay what it was
        // then. The one thing a map cannot survive is that another process truncates the file; our
        // own writer never does, it replaces whole files.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self::Mapped(map))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Static(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.as_slice().len())
    }
}
