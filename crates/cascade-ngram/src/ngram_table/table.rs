//! The table: a safetensors file, read in place.

use std::{ops::Range, path::Path};

use cascade_core::{Fingerprint, TokenId};

use super::{BLOCK, NgramMetadata, bigrams, codes, layout::Layout, metadata::FORMAT_VERSION};
use crate::container::{BIGRAMS, Entries, NGRAMS, TableFile, Tensors};
use crate::{Error, Result};

/// For each token of a vocabulary, and for pairs of tokens, what most often follows them, with
/// counts; and how often the most frequent tokens occur at all.
///
/// The file is safetensors, little-endian. V is the size of the vocabulary, at most 2²¹ − 1. The
/// contexts are the V tokens, then P pairs of tokens, sorted; C = V + P, and B = ⌈C / 32⌉ + 1.
///
/// | tensor | type | shape | content |
/// |---|---|---|---|
/// | `entries` | U32 | `[entries]` | by context, most frequent first: 21 bits of token, code |
/// | `lengths` | U8 | `[C]` | how many entries a context has |
/// | `blocks` | U32 | `[B]` | entries before the contexts 0, 32, 64, …, and in all |
/// | `totals` | U16 | `[C]` | code of how often a context is continued; 0 without entries |
/// | `firsts` | U32 | `[V + 1]` | pairs that begin with token t: `firsts[t]..firsts[t + 1]` |
/// | `seconds` | U16, U32 if V > 2¹⁶ | `[P]` | second tokens of pairs, rising for each first |
/// | `unigrams` | U32 | `[≤ 64]` | the most frequent tokens |
/// | `unigram_counts` | U64 | `[≤ 64]` | how often they occur |
///
/// **Codes** are counts of few bits; that of an entry is in its upper 11 bits. Of a total, the code
/// c is c itself below 4096, and otherwise (2¹¹ + c mod 2¹¹) · 2^(⌊c / 2¹¹⌋ − 1): exact up to 4095,
/// then at most 1/2048 too large. Of a count it is c itself below 128, otherwise
/// (2⁶ + c mod 2⁶) · 2^(⌊c / 2⁶⌋ − 1): exact up to 127, then at most 1/64 too small; 2047 is all of
/// the context's total. So counts never exceed their total, and a context that was always continued
/// in the same way says so.
///
/// `__metadata__` is [`NgramMetadata`] and `crc32`, the checksum of everything else. Everything is
/// checked when a table is loaded, in one pass over it. A look-up is an index for one token, and a
/// binary search among the pairs with the same first token for two. Files are mapped into memory,
/// embedded tables are read where they are: neither is copied.
///
/// In a table of order 1 the total of a token is its frequency: how often it occurs at all.
///
/// Bigram tables, which earlier versions wrote, can be opened, too: they become tables of order 1,
/// in memory.
#[derive(Debug)]
pub struct NgramTable {
    file: TableFile,
    pub(super) layout: Layout,
    metadata: NgramMetadata,
    unigrams: Vec<(TokenId, u64)>,
}

impl NgramTable {
    /// Maps a file and checks that it is a valid table for `tokenizer`.
    ///
    /// The file must not be changed while it is in use; [`write`](Self::write) replaces files and
    /// never changes them.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or was built for another tokenizer. All name the
    /// file.
    pub fn open(path: impl AsRef<Path>, tokenizer: &Fingerprint) -> Result<Self> {
        Self::load(TableFile::map(path.as_ref())?, Some(tokenizer))
    }

    /// Maps a file and checks that it is a valid table, for any tokenizer: for tools that inspect
    /// tables. Before drafting, [`check_tokenizer`](Self::check_tokenizer).
    ///
    /// # Errors
    /// As [`open`](Self::open), without the tokenizer.
    pub fn open_any(path: impl AsRef<Path>) -> Result<Self> {
        Self::load(TableFile::map(path.as_ref())?, None)
    }

    /// A table that is embedded in the program; `name` replaces the file name in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_static(
        name: impl Into<String>,
        bytes: &'static [u8],
        tokenizer: &Fingerprint,
    ) -> Result<Self> {
        Self::load(TableFile::in_memory(name, bytes), Some(tokenizer))
    }

    /// A table from the bytes of its file; `name` replaces the file name in errors.
    ///
    /// # Errors
    /// As [`open_any`](Self::open_any).
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self> {
        Self::load(TableFile::in_memory(name, bytes), None)
    }

    fn load(file: TableFile, tokenizer: Option<&Fingerprint>) -> Result<Self> {
        let (header, data) = file.header()?;
        let entries = Entries::new(file.name(), header.metadata())?;
        let tensors = Tensors(file.name(), &header, data);
        let check = |found: &Fingerprint| {
            tokenizer.map_or(Ok(()), |expected| same_tokenizer(&file, found, expected))
        };
        if entries.are_of(BIGRAMS, bigrams::FORMAT_VERSION)? {
            // Before it is converted, which takes longer.
            let provenance = entries.provenance()?;
            check(&provenance.tokenizer)?;
            return bigrams::convert(&file, entries, &tensors, provenance);
        }
        if !entries.are_of(NGRAMS, FORMAT_VERSION)? {
            return Err(Error::NotATable {
                file: file.name().to_owned(),
            });
        }
        let content = file.as_slice().get(data..).unwrap_or_default();
        let metadata = NgramMetadata::from_entries(entries, content)?;
        check(&metadata.provenance.tokenizer)?;
        let layout = Layout::new(&tensors, metadata.vocab_size)?;
        let mut table = Self {
            file,
            layout,
            metadata,
            unigrams: Vec::new(),
        };
        table.unigrams = table.read_unigrams();
        table.check()?;
        Ok(table)
    }

    /// Checks that the table was built for this vocabulary.
    ///
    /// # Errors
    /// [`Error::Tokenizer`], with both fingerprints.
    pub fn check_tokenizer(&self, tokenizer: &Fingerprint) -> Result<()> {
        same_tokenizer(&self.file, &self.metadata.provenance.tokenizer, tokenizer)
    }

    /// The file, or the name it was given.
    pub fn file(&self) -> &str {
        self.file.name()
    }

    /// The bytes of the table's file. Equal content gives equal bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.file.as_slice()
    }

    /// Writes the table to a file that appears whole or not at all: into a temporary file beside
    /// it, then renamed.
    ///
    /// # Errors
    /// [`Error::Write`]; the temporary file is removed, and a former file of that name is as it
    /// was.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        cascade_core::fs::write(path, self.as_bytes()).map_err(|source| Error::Write {
            file: path.to_owned(),
            source,
        })
    }

    /// The table's metadata.
    pub fn metadata(&self) -> &NgramMetadata {
        &self.metadata
    }

    /// Tokens of the longest contexts: 1 or 2.
    pub fn order(&self) -> usize {
        self.metadata.order
    }

    /// Number of tokens in the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.layout.vocab_size
    }

    /// Number of contexts of two tokens.
    pub fn pairs(&self) -> usize {
        self.layout.pairs
    }

    /// Number of continuations of all contexts together.
    pub fn continuations(&self) -> usize {
        self.layout.continuations
    }

    /// What follows this context of one or two tokens, the newest last; `None` if the table does
    /// not know it, and for contexts of other lengths.
    pub fn after(&self, context: &[TokenId]) -> Option<Continuations<'_>> {
        let index = match *context {
            [token] => Some(token as usize).filter(|&token| token < self.layout.vocab_size),
            [first, second] => self.index_of_pair(first as usize, second),
            _ => None,
        }?;
        self.continuations_at(index)
    }

    /// The token that most often follows `token`, if the table knows any.
    pub fn best(&self, token: TokenId) -> Option<TokenId> {
        Some(self.after(&[token])?.next()?.0)
    }

    /// The best successor of `last`, the best successor of that one, and so on.
    pub(crate) fn chain(&self, last: Option<TokenId>) -> impl Iterator<Item = TokenId> + '_ {
        std::iter::successors(last, |&token| self.best(token)).skip(1)
    }

    /// The most frequent tokens, at most 64, with how often they occur, most frequent first.
    pub fn unigrams(&self) -> &[(TokenId, u64)] {
        &self.unigrams
    }

    /// Number of tokens that were counted: what the counts of [`unigrams`](Self::unigrams) are
    /// shares of.
    pub fn total_tokens(&self) -> u64 {
        self.metadata.total_tokens
    }

    /// All contexts with continuations: the tokens, then the pairs, sorted.
    pub fn contexts(&self) -> impl Iterator<Item = (Vec<TokenId>, Continuations<'_>)> + '_ {
        let tokens = (0..self.layout.vocab_size).map(|token| (vec![token as TokenId], token));
        let pairs = (0..self.layout.vocab_size).flat_map(move |first| {
            let context = move |i| vec![first as TokenId, self.second(i)];
            self.pairs_of(first)
                .map(move |i| (context(i), self.layout.vocab_size + i))
        });
        tokens
            .chain(pairs)
            .filter_map(|(context, index)| Some((context, self.continuations_at(index)?)))
    }

    pub(super) fn invalid(&self, reason: String) -> Error {
        self.file.invalid(reason)
    }

    fn index_of_pair(&self, first: usize, second: TokenId) -> Option<usize> {
        let range = self.pairs_of(first);
        let seconds = &self.file.as_slice()[self.layout.seconds.clone()];
        let found = match self.layout.second_width {
            2 => search::<2>(seconds, range, second),
            _ => search::<4>(seconds, range, second),
        };
        Some(self.layout.vocab_size + found?)
    }

    /// The pairs that begin with a token.
    pub(super) fn pairs_of(&self, first: usize) -> Range<usize> {
        if first < self.layout.vocab_size {
            self.first(first)..self.first(first + 1)
        } else {
            0..0
        }
    }

    pub(super) fn first(&self, token: usize) -> usize {
        self.file.u32_at(&self.layout.firsts, token) as usize
    }

    pub(super) fn second(&self, pair: usize) -> TokenId {
        match self.layout.second_width {
            2 => u16::from_le_bytes(self.file.at(&self.layout.seconds, pair)).into(),
            _ => self.file.u32_at(&self.layout.seconds, pair),
        }
    }

    fn continuations_at(&self, index: usize) -> Option<Continuations<'_>> {
        let total = self.total(index);
        if total == 0 {
            return None;
        }
        let start = 4 * self.start(index);
        let entries = &self.file.as_slice()[self.layout.entries.clone()];
        let entries = entries.get(start..start + 4 * self.length(index));
        Some(Continuations {
            total,
            entries: entries.unwrap_or_default(),
        })
    }

    /// Where the entries of a context begin.
    fn start(&self, index: usize) -> usize {
        let lengths = &self.file.as_slice()[self.layout.lengths.clone()];
        let before: u32 = lengths
            .get(index / BLOCK * BLOCK..index)
            .unwrap_or_default()
            .iter()
            .map(|&n| u32::from(n))
            .sum();
        self.block(index / BLOCK) + before as usize
    }

    pub(super) fn block(&self, block: usize) -> usize {
        self.file.u32_at(&self.layout.blocks, block) as usize
    }

    pub(super) fn length(&self, index: usize) -> usize {
        let [length] = self.file.at(&self.layout.lengths, index);
        length.into()
    }

    pub(super) fn total(&self, index: usize) -> u64 {
        codes::total(u16::from_le_bytes(self.file.at(&self.layout.totals, index)))
    }

    pub(super) fn entry(&self, index: usize) -> u32 {
        self.file.u32_at(&self.layout.entries, index)
    }

    fn read_unigrams(&self) -> Vec<(TokenId, u64)> {
        let token = |i| self.file.u32_at(&self.layout.unigrams, i);
        let count = |i| self.file.u64_at(&self.layout.unigram_counts, i);
        (0..self.layout.unigram_tokens)
            .map(|i| (token(i), count(i)))
            .collect()
    }
}

fn same_tokenizer(file: &TableFile, found: &Fingerprint, expected: &Fingerprint) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Tokenizer {
        file: file.name().to_owned(),
        found: found.clone(),
        expected: expected.clone(),
    })
}

/// The index of a token in a range of a rising list of numbers of N bytes.
fn search<const N: usize>(list: &[u8], range: Range<usize>, token: TokenId) -> Option<usize> {
    let start = range.start;
    let list = list.as_chunks::<N>().0.get(range)?;
    let token_at = |bytes: &[u8; N]| {
        let mut wide = [0; size_of::<TokenId>()];
        wide[..N].copy_from_slice(bytes);
        TokenId::from_le_bytes(wide)
    };
    let found = list.binary_search_by_key(&token, token_at);
    Some(start + found.ok()?)
}

/// The tokens that follow a context, with their counts, most frequent first.
#[derive(Clone, Debug)]
pub struct Continuations<'a> {
    total: u64,
    entries: &'a [u8],
}

impl Continuations<'_> {
    /// How often the context is continued, also by tokens that the table does not hold: what the
    /// counts are shares of.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl Iterator for Continuations<'_> {
    type Item = (TokenId, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let (entry, rest) = self.entries.split_first_chunk()?;
        self.entries = rest;
        let entry = u32::from_le_bytes(*entry);
        Some((codes::token(entry), codes::count(entry, self.total)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.entries.len() / size_of::<u32>();
        (len, Some(len))
    }
}

impl ExactSizeIterator for Continuations<'_> {}
