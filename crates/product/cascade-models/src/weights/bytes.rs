//! The content of a file of weights where it lies: mapped, or part of the program.

use std::ops::Deref;

use memmap2::Mmap;

use crate::{Error, ModelFile, Result};

/// The bytes of a file.
pub(crate) enum Bytes {
    Mapped(Mmap),
    Embedded(&'static [u8]),
    /// A file of no bytes cannot be mapped.
    Empty,
}

impl Bytes {
    /// Maps a file on disk.
    ///
    /// # Errors
    /// [`Error::Io`].
    #[allow(unsafe_code)]
    pub(crate) fn open(file: &ModelFile) -> Result<Self> {
        let io = |source| Error::Io {
            file: file.to_string(),
            source,
        };
        let path = match file {
            ModelFile::Embedded { bytes, .. } => return Ok(Self::Embedded(bytes)),
            ModelFile::Disk(path) => path,
        };
        let opened = cascade_fs::open(path).map_err(io)?;
        if opened.metadata().map_err(io)?.len() == 0 {
            return Ok(Self::Empty);
        }
        // SAFETY: as for safetensors files: programs that write checkpoints or fill the hub's cache
        // make a new file and rename it. The mapping lives as long as loading does: tensors are
        // copied out of it. What is read from a file that is overwritten in place within that time
        // is checked for its bounds each time, and may be wrong weights or a fault, as in every
        // program that maps weights.
        let mapped = unsafe { Mmap::map(&opened) };
        Ok(Self::Mapped(mapped.map_err(io)?))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Embedded(bytes) => bytes,
            Self::Empty => &[],
        }
    }
}
