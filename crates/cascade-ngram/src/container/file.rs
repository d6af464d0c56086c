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
        if found == expected {
            Ok(())
        } else {
            Err(Error::Tokenizer {
                file: self.name.clone(),
                found: found.clone(),
                expected: expected.clone(),
            })
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
        cascade_core::fs::write(path, self.as_slice()).map_err(|source| Error::Write {
            file: path.to_owned(),
            source,
        })
    }
}

/// What tables of both formats do with their file: a type with a field `file`, `metadata` that has
/// the provenance, and `load`, which checks everything.
macro_rules! table_file {
    ($table:ty) => {
        impl $table {
            /// Maps a file and checks that it is a valid table for `tokenizer`.
            ///
            /// The file must not be changed while it is in use; [`write`](Self::write) replaces
            /// files and never changes them.
            ///
            /// # Errors
            /// A file that cannot be read, is damaged, or was built for another tokenizer. All name
            /// the file.
            pub fn open(
                path: impl AsRef<std::path::Path>,
                tokenizer: &cascade_core::Fingerprint,
            ) -> $crate::Result<Self> {
                let table = Self::open_any(path)?;
                table.check_tokenizer(tokenizer)?;
                Ok(table)
            }

            /// Maps a file and checks that it is a valid table, for any tokenizer: for tools that
            /// inspect tables. Before drafting, [`check_tokenizer`](Self::check_tokenizer).
            ///
            /// # Errors
            /// As [`open`](Self::open), without the tokenizer.
            pub fn open_any(path: impl AsRef<std::path::Path>) -> $crate::Result<Self> {
                Self::load($crate::container::TableFile::map(path)?)
            }

            /// A table that is embedded in the program; `name` replaces the file name in errors.
            ///
            /// # Errors
            /// As [`open`](Self::open).
            pub fn from_static(
                name: impl Into<String>,
                bytes: &'static [u8],
                tokenizer: &cascade_core::Fingerprint,
            ) -> $crate::Result<Self> {
                let table = Self::load($crate::container::TableFile::embedded(name, bytes))?;
                table.check_tokenizer(tokenizer)?;
                Ok(table)
            }

            /// A table from the bytes of its file; `name` replaces the file name in errors.
            ///
            /// # Errors
            /// As [`open_any`](Self::open_any).
            pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> $crate::Result<Self> {
                Self::load($crate::container::TableFile::owned(name, bytes))
            }

            /// Checks that the table was built for this vocabulary.
            ///
            /// # Errors
            /// [`Error::Tokenizer`](crate::Error::Tokenizer), with both fingerprints.
            pub fn check_tokenizer(
                &self,
                tokenizer: &cascade_core::Fingerprint,
            ) -> $crate::Result<()> {
                let found = &self.metadata.provenance.tokenizer;
                self.file.check_tokenizer(found, tokenizer)
            }

            /// The file, or the name it was given.
            pub fn file(&self) -> &str {
                self.file.name()
            }

            /// The bytes of the table's file. Equal content gives equal bytes.
            pub fn as_bytes(&self) -> &[u8] {
                self.file.as_slice()
            }

            /// Writes the table to a file that appears whole or not at all: into a temporary file
            /// beside it, then renamed.
            ///
            /// # Errors
            /// [`Error::Write`](crate::Error::Write); the temporary file is removed, and a former
            /// file of that name is as it was.
            pub fn write(&self, path: impl AsRef<std::path::Path>) -> $crate::Result<()> {
                self.file.write(path)
            }
        }
    };
}
pub(crate) use table_file;
