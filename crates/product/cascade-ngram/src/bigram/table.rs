//! The table itself: a safetensors file, read where it lies.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use cascade_core::{Fingerprint, TokenId};
use memmap2::Mmap;
use safetensors::{tensor::Metadata, Dtype, SafeTensors};

use super::{
    encode::{encode, Csr},
    tensor, BigramMetadata,
};
use crate::{Error, Result};

/// For each token of a vocabulary the tokens that most often follow it, with counts.
///
/// The file is safetensors, in compressed-sparse-row form, little-endian:
///
/// | tensor | type | shape | content |
/// |---|---|---|---|
/// | `offsets` | U64 | `[V + 1]` | the successors of token t are `offsets[t]..offsets[t + 1]` |
/// | `successors` | U32 | `[pairs]` | for each token by falling count, equal counts by rising token |
/// | `counts` | U64 | `[pairs]` | how often the successor follows the token; at least 1 |
/// | `unigram_counts` | U64 | `[V]` | how often the token occurs at all |
///
/// Its `__metadata__` is [`BigramMetadata`]. Everything is checked when a table is loaded, in one pass over it; a look-up
/// is an index. Files are mapped into memory, embedded tables are read where they are: neither is copied.
#[derive(Debug)]
pub struct BigramTable {
    file: String,
    bytes: Bytes,
    layout: Layout,
    metadata: BigramMetadata,
}

enum Bytes {
    Mapped(Mmap),
    Static(&'static [u8]),
    Owned(Vec<u8>),
}

/// Where the tensors lie in the bytes.
#[derive(Clone, Debug)]
struct Layout {
    vocab_size: usize,
    pairs: usize,
    offsets: Range<usize>,
    successors: Range<usize>,
    counts: Range<usize>,
    unigram_counts: Range<usize>,
}

impl BigramTable {
    /// Maps a file and checks that it is a sound table for `tokenizer`.
    ///
    /// The file must not be changed while it is in use; [`write`](Self::write) replaces files and never changes them.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or was built for another tokenizer. All name the file.
    pub fn open(path: impl AsRef<Path>, tokenizer: &Fingerprint) -> Result<Self> {
        let table = Self::open_any(path)?;
        table.check_tokenizer(tokenizer)?;
        Ok(table)
    }

    /// Maps a file and checks that it is a sound table, for whichever tokenizer: for tools that look at tables. Before
    /// drafting, [`check_tokenizer`](Self::check_tokenizer).
    ///
    /// # Errors
    /// As [`open`](Self::open), without the tokenizer.
    pub fn open_any(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = map(path).map_err(|source| Error::Read {
            file: path.to_owned(),
            source,
        })?;
        Self::load(path.display().to_string(), Bytes::Mapped(bytes))
    }

    /// A table that is embedded in the program; `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_static(
        name: impl Into<String>,
        bytes: &'static [u8],
        tokenizer: &Fingerprint,
    ) -> Result<Self> {
        let table = Self::load(name.into(), Bytes::Static(bytes))?;
        table.check_tokenizer(tokenizer)?;
        Ok(table)
    }

    /// A table from the bytes of its file; `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`open_any`](Self::open_any).
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self> {
        Self::load(name.into(), Bytes::Owned(bytes))
    }

    pub(super) fn from_csr(name: &str, metadata: &BigramMetadata, csr: &Csr) -> Result<Self> {
        Self::from_bytes(name, encode(metadata, csr))
    }

    fn load(file: String, bytes: Bytes) -> Result<Self> {
        let slice = bytes.as_slice();
        let (header, safetensors) =
            SafeTensors::read_metadata(slice).map_err(|source| Error::Container {
                file: file.clone(),
                source,
            })?;
        let metadata = BigramMetadata::from_entries(&file, safetensors.metadata())?;
        let layout = Layout::new(&file, &safetensors, size_of::<u64>() + header)?;
        let table = Self {
            file,
            bytes,
            layout,
            metadata,
        };
        table.check_rows()?;
        Ok(table)
    }

    /// Refuses another vocabulary than the one the table was built for.
    ///
    /// # Errors
    /// [`Error::Tokenizer`], with both fingerprints.
    pub fn check_tokenizer(&self, tokenizer: &Fingerprint) -> Result<()> {
        let found = &self.metadata.provenance.tokenizer;
        if found == tokenizer {
            return Ok(());
        }
        Err(Error::Tokenizer {
            file: self.file.clone(),
            found: found.clone(),
            expected: tokenizer.clone(),
        })
    }

    /// The file, or the name it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What the table says about itself.
    pub fn metadata(&self) -> &BigramMetadata {
        &self.metadata
    }

    /// Number of tokens in the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.layout.vocab_size
    }

    /// Number of pairs in the table.
    pub fn pairs(&self) -> usize {
        self.layout.pairs
    }

    /// The bytes of the table's file. Equal content gives equal bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Tokens that follow `token`, with their counts, most frequent first. Empty for a token outside the vocabulary.
    pub fn successors(&self, token: TokenId) -> Successors<'_> {
        let token = token as usize;
        let row = if token < self.layout.vocab_size {
            self.offset(token) as usize..self.offset(token + 1) as usize
        } else {
            0..0
        };
        Successors { table: self, row }
    }

    /// The token that follows `token` most often.
    pub fn best(&self, token: TokenId) -> Option<TokenId> {
        self.successors(token).next().map(|(token, _)| token)
    }

    /// How often `token` occurs; 0 outside the vocabulary.
    pub fn unigram_count(&self, token: TokenId) -> u64 {
        if (token as usize) < self.layout.vocab_size {
            self.u64_at(&self.layout.unigram_counts, token as usize)
        } else {
            0
        }
    }

    /// The best successor of `last`, the best successor of that one, and so on.
    pub(crate) fn chain(&self, last: Option<TokenId>) -> impl Iterator<Item = TokenId> + '_ {
        std::iter::successors(last, |&token| self.best(token)).skip(1)
    }

    /// Writes the table to a file that appears whole or not at all: into a temporary file beside it, then renamed.
    ///
    /// # Errors
    /// [`Error::Write`]; the temporary file is removed, and a former file of that name is as it was.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        replace(path, self.as_bytes()).map_err(|source| Error::Write {
            file: path.to_owned(),
            source,
        })
    }

    fn check_rows(&self) -> Result<()> {
        let Layout {
            vocab_size, pairs, ..
        } = self.layout;
        for token in 0..vocab_size {
            let (start, end) = (self.offset(token), self.offset(token + 1));
            let begins = token > 0 || start == 0;
            let ends = token + 1 < vocab_size || end == pairs as u64;
            if !begins || !ends || start > end || end > pairs as u64 {
                return Err(Error::Offsets {
                    file: self.file.clone(),
                    token,
                    start,
                    end,
                    pairs,
                });
            }
            self.check_row(token)?;
        }
        Ok(())
    }

    fn check_row(&self, token: usize) -> Result<()> {
        let row: Vec<(TokenId, u64)> = self.successors(token as TokenId).collect();
        let vocab_size = self.layout.vocab_size;
        if let Some(&(successor, _)) = row.iter().find(|(s, _)| *s as usize >= vocab_size) {
            return Err(Error::Successor {
                file: self.file.clone(),
                token,
                successor,
                vocab_size,
            });
        }
        let falling = row
            .windows(2)
            .all(|pair| pair[0].1 > pair[1].1 || pair[0].1 == pair[1].1 && pair[0].0 < pair[1].0);
        let mut tokens: Vec<TokenId> = row.iter().map(|pair| pair.0).collect();
        tokens.sort_unstable();
        let distinct = tokens.windows(2).all(|pair| pair[0] != pair[1]);
        if falling && distinct && row.last().is_none_or(|pair| pair.1 > 0) {
            return Ok(());
        }
        Err(Error::Order {
            file: self.file.clone(),
            token,
        })
    }

    fn offset(&self, index: usize) -> u64 {
        self.u64_at(&self.layout.offsets, index)
    }

    fn u64_at(&self, tensor: &Range<usize>, index: usize) -> u64 {
        u64::from_le_bytes(self.at(tensor, index))
    }

    /// The bytes of one element. Zeros outside the tensor: that takes a file that was changed after it was checked.
    fn at<const N: usize>(&self, tensor: &Range<usize>, index: usize) -> [u8; N] {
        self.bytes.as_slice()[tensor.clone()]
            .get(index * N..index * N + N)
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or([0; N])
    }
}

/// The tokens that follow a token, with their counts, most frequent first.
#[derive(Clone, Debug)]
pub struct Successors<'a> {
    table: &'a BigramTable,
    row: Range<usize>,
}

impl Iterator for Successors<'_> {
    type Item = (TokenId, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.row.next()?;
        let layout = &self.table.layout;
        let token = TokenId::from_le_bytes(self.table.at(&layout.successors, pair));
        Some((token, self.table.u64_at(&layout.counts, pair)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.row.size_hint()
    }
}

impl ExactSizeIterator for Successors<'_> {}

impl Layout {
    fn new(file: &str, header: &Metadata, data: usize) -> Result<Self> {
        let find = |tensor, expected| find(file, header, data, tensor, expected);
        let (vocab_size, unigram_counts) = find(tensor::UNIGRAM_COUNTS, Dtype::U64)?;
        let (rows, offsets) = find(tensor::OFFSETS, Dtype::U64)?;
        let (pairs, successors) = find(tensor::SUCCESSORS, Dtype::U32)?;
        let (counted, counts) = find(tensor::COUNTS, Dtype::U64)?;
        let shape = |tensor, found, expected| Error::Shape {
            file: file.into(),
            tensor,
            found: vec![found],
            expected,
        };
        if rows != vocab_size + 1 {
            let expected = format!("[{}], one more than `unigram_counts`", vocab_size + 1);
            return Err(shape(tensor::OFFSETS, rows, expected));
        }
        if vocab_size == 0 {
            let expected = "one count for each token".to_owned();
            return Err(shape(tensor::UNIGRAM_COUNTS, vocab_size, expected));
        }
        if counted != pairs {
            let expected = format!("[{pairs}], as `successors`");
            return Err(shape(tensor::COUNTS, counted, expected));
        }
        Ok(Self {
            vocab_size,
            pairs,
            offsets,
            successors,
            counts,
            unigram_counts,
        })
    }
}

/// Length of a tensor of one dimension, and its place in the file.
fn find(
    file: &str,
    header: &Metadata,
    data: usize,
    tensor: &'static str,
    expected: Dtype,
) -> Result<(usize, Range<usize>)> {
    let info = header.info(tensor).ok_or_else(|| Error::MissingTensor {
        file: file.into(),
        tensor,
    })?;
    if info.dtype != expected {
        return Err(Error::Dtype {
            file: file.into(),
            tensor,
            found: info.dtype,
            expected,
        });
    }
    let &[len] = info.shape.as_slice() else {
        return Err(Error::Shape {
            file: file.into(),
            tensor,
            found: info.shape.clone(),
            expected: "one dimension".to_owned(),
        });
    };
    let (start, end) = info.data_offsets;
    Ok((len, data + start..data + end))
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
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

fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // SAFETY: the map is read-only, and what is read from it is treated as untrusted bytes at all times: every access is
    // checked against the bounds found when it was opened, and no value has to keep the form it had then. What a map can
    // not survive is another process cutting the file short in place; our own writer never does, it replaces files whole.
    #[allow(unsafe_code)]
    unsafe {
        Mmap::map(&file)
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = beside(path)?;
    let written = File::create_new(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A name in the same folder that nobody else uses.
fn beside(path: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?
        .to_owned();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{number}.tmp", std::process::id()));
    Ok(path.with_file_name(name))
}
