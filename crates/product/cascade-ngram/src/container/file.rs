//! The file of a table.

use std::{ops::Range, path::Path};

use cascade_core::Fingerprint;
use safetensors::{tensor::Metadata, SafeTensors};

use super::Bytes;
use crate::{Error, Result};

/// The bytes of a table's file, and what it is called in errors.
#[derive(Debug)]
pub(crate) struct TableFile {
    name: String,
    bytes: Bytes,
}

impl TableFile {
    /// Maps a file into memory.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub(crate) fn map(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = Bytes::map(path).map_err(|source| Error::Read {
            file: path.to_owned(),
            source,
        })?;
        Ok(Self {
            name: path.display().to_string(),
            bytes,
        })
    }

    /// A file that is embedded in the program.
    pub(crate) fn embedded(name: impl Into<String>, bytes: &'static [u8]) -> Self {
        Self {
            name: name.into(),
            bytes: Bytes::Static(bytes),
        }
    }

    /// A file in memory.
    pub(crate) fn owned(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self {
            name: name.into(),
            bytes: Bytes::Owned(bytes),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// The header, and where the data of tensors begin. Everything behind that belongs to some
    /// tensor, which safetensors checks.
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

    pub(crate) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::invalid(&self.name, reason)
    }

    /// Compares the vocabulary that the table was built for with another.
    ///
    /// # Errors
    /// [`Error::Tokenizer`], with both fingerprints.
    pub(crate) fn check_tokenizer(
        &self,
        found: &Fingerprint,
        expected: &Fingerprint,
    ) -> Result<()> {
        match found == expected {
            true => Ok(()),
            false => Err(Error::Tokenizer {
                file: self.name.clone(),
                found: found.clone(),
                expected: expected.clone(),
            }),
        }
    }

    /// Writes it to a file that appears whole or not at all: into a temporary file beside it, then
    /// renamed.
    ///
    /// # Errors
    /// [`Error::Write`]; the temporary file is removed, and a former file of that name is as it
    /// was.
    pub(crate) fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        cascade_fs::write(path, self.as_slice()).map_err(|source| Error::Write {
            file: path.to_owned(),
            source,
        })
    }
}
