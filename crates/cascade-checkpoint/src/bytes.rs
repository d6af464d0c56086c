//! The content of a file of weights where it lies: mapped, or part of the program.

use std::ops::{Deref, Range};

use cascade_hub::ModelFile;
use memmap2::Mmap;
#[cfg(target_os = "linux")]
use memmap2::UncheckedAdvice;

use crate::{Error, Result};

/// The bytes of a file.
pub(crate) enum Bytes {
    Mapped(Mmap),
    Embedded(&'static [u8]),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a file on disk.
    ///
    /// # Errors
    /// If it cannot be read.
    #[allow(unsafe_code)]
    pub(crate) fn open(file: &ModelFile) -> Result<Self> {
        let io = |source| Error::io(file, source);
        let path = match file {
            ModelFile::Embedded { bytes, .. } => return Ok(Self::Embedded(bytes)),
            ModelFile::Disk(path) => path,
        };
        let opened = cascade_core::fs::open(path).map_err(io)?;
        if opened.metadata().map_err(io)?.len() == 0 {
            // A file of no bytes cannot be mapped.
            return Ok(Self::Embedded(&[]));
        }
        // SAFETY: as for safetensors files: programs that write checkpoints or fill the hub's cache
        // make a new file and rename it. Tensors are copied out of the mapping, but for embeddings,
        // whose rows are looked up in it as long as the model lives. What is read from a file that
        // is overwritten in place within that time is checked for its bounds each time, and may be
        // wrong weights or a fault, as in every program that maps weights: see docs/security.md.
        let mapped = unsafe { Mmap::map(&opened) };
        Ok(Self::Mapped(mapped.map_err(io)?))
    }

    /// Gives up the memory in which a range of a mapped file has been read, which counts as the
    /// process's until the system needs it. It is read again if it is used again.
    #[allow(unsafe_code)]
    pub(crate) fn let_go(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Self::Mapped(mapped) = self {
            // Whole pages, none of which is shared with a neighbour.
            let start = range.start.next_multiple_of(PAGE);
            let end = range.end / PAGE * PAGE;
            if start < end {
                // SAFETY: nobody writes to the mapping, so that pages that are given up are read
                // from the file again with what they had. It is no loss if they are not.
                let advice = UncheckedAdvice::DontNeed;
                let _ = unsafe { mapped.unchecked_advise_range(advice, start, end - start) };
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }
}

/// The largest page that a file is mapped in.
#[cfg(target_os = "linux")]
const PAGE: usize = 1 << 16;

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Embedded(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident bytes of the mapping of a file, as Linux counts them.
    #[cfg(target_os = "linux")]
    fn resident(path: &std::path::Path) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps
            .lines()
            .skip_while(|line| !line.ends_with(path.to_str().unwrap()));
        let line = lines.find(|line| line.starts_with("Rss:")).unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<usize>()
            .unwrap()
            << 10
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_let_go_is_not_resident_and_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        let content: Vec<u8> = (0..1usize << 20).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let bytes = Bytes::open(&ModelFile::Disk(path.clone())).unwrap();
        assert!(bytes[..] == content[..]);
        assert_eq!(resident(&path), 1 << 20);
        bytes.let_go(100..(1 << 20) - 100);
        assert!(resident(&path) <= 2 * PAGE);
        assert!(bytes[..] == content[..]);
        bytes.let_go(5..5);
        bytes.let_go(0..PAGE / 2);
        assert_eq!(resident(&path), 1 << 20);
    }
}
