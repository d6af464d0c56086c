//! The table: a safetensors file, read in place.

use std::ops::Range;

use cascade_core::TokenId;

use super::{
    encode::{encode, Csr},
    layout::Layout,
    BigramMetadata,
};
use crate::container::{table_file, TableFile};
use crate::Result;

/// For each token of a vocabulary the tokens that most often follow it, with counts.
///
/// The file is safetensors, in compressed-sparse-row form, little-endian:
///
/// | tensor | type | shape | content |
/// |---|---|---|---|
/// | `offsets` | U64 | `[V + 1]` | the successors of token t are `offsets[t]..offsets[t + 1]` |
/// | `successors` | U32 | `[pairs]` | by token: by falling count, equal counts by rising token |
/// | `counts` | U64 | `[pairs]` | how often the successor follows the token; at least 1 |
/// | `unigram_counts` | U64 | `[V]` | how often the token occurs at all |
///
/// Its `__metadata__` is [`BigramMetadata`]. Everything is checked when a table is loaded, in one
/// pass over it; a look-up is an index. Files are mapped into memory, embedded tables are read
/// where they are: neither is copied.
#[derive(Debug)]
pub struct BigramTable {
    file: TableFile,
    pub(super) layout: Layout,
    metadata: BigramMetadata,
}

table_file!(BigramTable);

impl BigramTable {
    pub(super) fn from_csr(name: &str, metadata: &BigramMetadata, csr: &Csr) -> Result<Self> {
        Self::from_bytes(name, encode(metadata, csr))
    }

    pub(crate) fn load(file: TableFile) -> Result<Self> {
        let (header, data) = file.header()?;
        let metadata = BigramMetadata::from_entries(file.name(), header.metadata())?;
        let layout = Layout::new(file.name(), &header, data)?;
        let table = Self {
            file,
            layout,
            metadata,
        };
        table.check_rows()?;
        Ok(table)
    }

    /// The table's metadata.
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

    /// Tokens that follow `token`, with their counts, most frequent first. Empty for a token
    /// outside the vocabulary.
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

    pub(super) fn offset(&self, index: usize) -> u64 {
        self.u64_at(&self.layout.offsets, index)
    }

    fn u64_at(&self, tensor: &Range<usize>, index: usize) -> u64 {
        u64::from_le_bytes(self.file.at(tensor, index))
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
        let token = TokenId::from_le_bytes(self.table.file.at(&layout.successors, pair));
        Some((token, self.table.u64_at(&layout.counts, pair)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.row.size_hint()
    }
}

impl ExactSizeIterator for Successors<'_> {}
