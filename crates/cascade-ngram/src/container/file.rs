//! The file of a table.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::{fmt, io};

use memmap2::Mmap;
use safetensors::{SafeTensors, tensor::Metadata};

use crate::{Error, Result};

/// The bytes of a table's file, and what it is called in errors.
#[derive(Debug)]
pub(crate) struct TableFile {
    name: String,
    bytes: Bytes,
}

/// Bytes that are mapped, or in memory: embedded in the program, or on the heap.
enum Bytes {
    Mapped(Mmap),
    InMemory(Cow<'static, [u8]>),
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes of a table")
    }
}

impl TableFile {
    /// Maps a file into memory.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub(crate) fn map(path: &Path) -> Result<Self> {
        Ok(Self {
            name: path.display().to_string(),
            bytes: Bytes::Mapped(map(path).map_err(|source| Error::Read {
                file: path.to_owned(),
                source,
            })?),
        })
    }

    /// A file that is embedded in the program, or on the heap.
    pub(crate) fn in_memory(name: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        Self {
            name: name.into(),
            bytes: Bytes::InMemory(bytes.into()),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::InMemory(bytes) => bytes,
        }
    }

    /// The header, and the byte at which the data of tensors begin. Everything behind that belongs
    /// to some tensor, which safetensors checks.
    ///
    /// # Errors
    /// [`Error::Container`].
    pub(crate) fn header(&self) -> Result<(Metadata, usize)> {
        let (header, metadata) =
            SafeTensors::read_metadata(self.as_slice()).map_err(|source| Error::Container {
                file: self.name.clone(),
                source: source.into(),
            })?;
        Ok((metadata, size_of::<u64>() + header))
    }

    /// The bytes of one element. Zeros outside the tensor: that takes a file that was changed after
    /// it was checked.
    pub(crate) fn at<const N: usize>(&self, tensor: &Range<usize>, index: usize) -> [u8; N] {
        self.as_slice()[tensor.clone()]
            .get(index * N..index * N + N)
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or([0; N])
    }

    pub(crate) fn u32_at(&self, tensor: &Range<usize>, index: usize) -> u32 {
        u32::from_le_bytes(self.at(tensor, index))
    }

    pub(crate) fn u64_at(&self, tensor: &Range<usize>, index: usize) -> u64 {
        u64::from_le_bytes(self.at(tensor, index))
    }

    pub(crate) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::invalid(&self.name, reason)
    }
}

/// Maps a file into memory, read-only.
fn map(path: &Path) -> io::Result<Mmap> {
    let file = cascade_core::fs::open(path)?;
    // SAFETY: the map is read-only, and its bytes are untrusted at all times: every access is
    // checked against the bounds found when it was opened, and no value has to stay what it was
    // then. The one thing a map cannot survive is that another process truncates the file; our own
    // writer never does, it replaces whole files.
    #[allow(unsafe_code)]
    unsafe {
        Mmap::map(&file)
    }
}
