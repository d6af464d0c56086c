//! Bigram tables of earlier versions, read as tables of order 1.
//!
//! Such a file is safetensors, in compressed-sparse-row form, little-endian; V is the size of the
//! vocabulary:
//!
//! | tensor | type | shape | content |
//! |---|---|---|---|
//! | `offsets` | U64 | `[V + 1]` | the successors of token t are `offsets[t]..offsets[t + 1]` |
//! | `successors` | U32 | `[pairs]` | by token: by falling count, equal counts by rising token |
//! | `counts` | U64 | `[pairs]` | how often the successor follows the token; at least 1 |
//! | `unigram_counts` | U64 | `[V]` | how often the token occurs at all |

use std::cmp::Reverse;
use std::ops::Range;

use cascade_core::TokenId;
use safetensors::Dtype;

use super::{NgramLimits, NgramMetadata, NgramRows, NgramTable};
use crate::container::{Entries, TableFile, Tensors};
use crate::{Error, Provenance, Result};

/// The format's version. Version 1 described corpus and producer in prose.
pub(super) const FORMAT_VERSION: u32 = 2;

/// The tensors of a bigram table, as byte ranges of its file.
struct Bigrams<'a> {
    file: &'a TableFile,
    vocab_size: usize,
    pairs: usize,
    offsets: Range<usize>,
    successors: Range<usize>,
    counts: Range<usize>,
    unigram_counts: Range<usize>,
}

/// The table of order 1 with the content of a bigram table: of each token at most 255 successors.
/// The name stays.
///
/// # Errors
/// Metadata or tensors that are missing, malformed or out of order; a table that is too large for
/// the format.
pub(super) fn convert(
    file: &TableFile,
    entries: Entries<'_>,
    tensors: &Tensors<'_>,
    provenance: Provenance,
) -> Result<NgramTable> {
    let bigrams = Bigrams::new(file, tensors)?;
    let named = |error| match error {
        Error::Invalid { reason, .. } => file.invalid(reason),
        other => file.invalid(other.to_string()),
    };
    let rows = bigrams.rows().map_err(named)?;
    let metadata = NgramMetadata {
        top_k: entries.number("top_k")?,
        min_count: entries.number("min_count")?,
        total_bigrams: entries.number("total_bigrams")?,
        ..rows.metadata(entries.number("documents")?, provenance)
    };
    // The sum of the tokens' counts takes its place: in imported tables it is 0.
    entries.number::<u64>("total_tokens")?;
    rows.encode(file.name(), &metadata).map_err(named)
}

impl<'a> Bigrams<'a> {
    fn new(file: &'a TableFile, tensors: &Tensors<'_>) -> Result<Self> {
        let (vocab_size, unigram_counts) = tensors.find("unigram_counts", Dtype::U64)?;
        let (pairs, successors) = tensors.find("successors", Dtype::U32)?;
        Ok(Self {
            file,
            vocab_size,
            pairs,
            offsets: tensors.sized(
                "offsets",
                Dtype::U64,
                vocab_size + 1,
                "one more than `unigram_counts`",
            )?,
            successors,
            counts: tensors.sized("counts", Dtype::U64, pairs, "as `successors`")?,
            unigram_counts,
        })
    }

    fn rows(&self) -> Result<NgramRows> {
        let limits = NgramLimits {
            top_k: u8::MAX.into(),
            min_count: 1,
            min_context: 0,
        };
        let mut rows = NgramRows::new(1, self.vocab_size, limits)?;
        let mut end = 0;
        for token in 0..self.vocab_size {
            let row = self.row(token, end)?;
            end = row.end;
            rows.add_token(
                token as TokenId,
                self.file.u64_at(&self.unigram_counts, token),
            )?;
            let mut successors = self.successors(token, row)?;
            successors.sort_unstable();
            for (successor, count) in successors {
                rows.add_pair(token as TokenId, successor, count)?;
            }
        }
        Ok(rows)
    }

    /// The pairs that begin with a token; `end` is the end of the row before.
    fn row(&self, token: usize, end: u64) -> Result<Range<u64>> {
        let pairs = self.pairs as u64;
        let [start, stop] = [token, token + 1].map(|at| self.file.u64_at(&self.offsets, at));
        let whole = token + 1 < self.vocab_size || stop == pairs;
        if start == end && start <= stop && stop <= pairs && whole {
            return Ok(start..stop);
        }
        Err(self.file.invalid(format!(
            "the offsets of token {token} are {start}..{stop}, which is not a row of {pairs} pairs; \
             offsets begin at 0, never fall, and end at the number of pairs"
        )))
    }

    /// The successors of a token with their counts, in the file's order.
    fn successors(&self, token: usize, row: Range<u64>) -> Result<Vec<(TokenId, u64)>> {
        let successor = |at| self.file.u32_at(&self.successors, at);
        let count = |at| self.file.u64_at(&self.counts, at);
        let row: Vec<(TokenId, u64)> = (row.start as usize..row.end as usize)
            .map(|at| (successor(at), count(at)))
            .collect();
        let falling = row.is_sorted_by_key(|&(successor, count)| (Reverse(count), successor));
        if falling && row.last().is_none_or(|pair| pair.1 > 0) {
            return Ok(row);
        }
        Err(self.file.invalid(format!(
            "the successors of token {token} are not in order; \
             each stands once, by falling count, equal counts by rising token"
        )))
    }
}
