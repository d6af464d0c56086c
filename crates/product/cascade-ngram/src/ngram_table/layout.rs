//! The layout of a table's tensors in its bytes.

use std::ops::Range;

use safetensors::{tensor::Metadata, Dtype};

use super::codes::TOKEN_BITS;
use super::{tensor, NgramMetadata, BLOCK, UNIGRAMS};
use crate::container::{find, wrong_shape};
use crate::{Error, Result};

/// Byte ranges of the tensors, and how many elements they have.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) vocab_size: usize,
    /// Contexts of two tokens.
    pub(super) pairs: usize,
    pub(super) continuations: usize,
    pub(super) unigram_tokens: usize,
    /// Bytes of an element of `seconds`: 2 where all tokens of the vocabulary fit, otherwise 4.
    pub(super) second_width: usize,
    pub(super) unigram_counts: Range<usize>,
    pub(super) unigrams: Range<usize>,
    pub(super) blocks: Range<usize>,
    pub(super) entries: Range<usize>,
    pub(super) firsts: Range<usize>,
    pub(super) seconds: Range<usize>,
    pub(super) totals: Range<usize>,
    pub(super) lengths: Range<usize>,
}

/// Whether tokens of the vocabulary fit into 16 bits.
pub(super) fn is_narrow(vocab_size: usize) -> bool {
    vocab_size <= 1 << 16
}

impl Layout {
    /// The layout of a file whose tensors' data begins at byte `data`.
    ///
    /// # Errors
    /// Tensors that are missing, of another type, or whose shapes do not fit together; a vocabulary
    /// that is empty or too large for the format.
    pub(super) fn new(
        file: &str,
        header: &Metadata,
        data: usize,
        metadata: &NgramMetadata,
    ) -> Result<Self> {
        let vocab_size = metadata.vocab_size;
        check_vocabulary(file, vocab_size)?;
        let find = |tensor, expected| find(file, header, data, tensor, expected);
        let of_size = |tensor, expected: Dtype, len: usize, what: &str| {
            let (found, range) = find(tensor, expected)?;
            if found == len {
                return Ok(range);
            }
            let expected = format!("[{len}], {what}");
            Err(wrong_shape(file, tensor, &[found], &expected))
        };
        let (unigram_tokens, unigrams) = find(tensor::UNIGRAMS, Dtype::U32)?;
        if unigram_tokens > UNIGRAMS {
            let expected = format!("at most {UNIGRAMS} tokens");
            return Err(wrong_shape(
                file,
                tensor::UNIGRAMS,
                &[unigram_tokens],
                &expected,
            ));
        }
        let (second_width, dtype) = match is_narrow(vocab_size) {
            true => (2, Dtype::U16),
            false => (4, Dtype::U32),
        };
        let (pairs, seconds) = find(tensor::SECONDS, dtype)?;
        let contexts = vocab_size + pairs;
        let blocks = contexts.div_ceil(BLOCK) + 1;
        let (continuations, entries) = find(tensor::ENTRIES, Dtype::U32)?;
        Ok(Self {
            vocab_size,
            pairs,
            continuations,
            unigram_tokens,
            second_width,
            unigram_counts: of_size(
                tensor::UNIGRAM_COUNTS,
                Dtype::U64,
                unigram_tokens,
                "as `unigrams`",
            )?,
            unigrams,
            blocks: of_size(
                tensor::BLOCKS,
                Dtype::U32,
                blocks,
                "one for each 32 contexts and the end",
            )?,
            entries,
            firsts: of_size(
                tensor::FIRSTS,
                Dtype::U32,
                vocab_size + 1,
                "one more than the vocabulary",
            )?,
            seconds,
            totals: of_size(tensor::TOTALS, Dtype::U16, contexts, "one for each context")?,
            lengths: of_size(tensor::LENGTHS, Dtype::U8, contexts, "one for each context")?,
        })
    }
}

/// Refuses vocabularies that the format cannot hold.
pub(super) fn check_vocabulary(file: &str, vocab_size: usize) -> Result<()> {
    // The highest number of 21 bits stands for no token where counts are sorted.
    let most = (1 << TOKEN_BITS) - 1;
    if (1..=most).contains(&vocab_size) {
        return Ok(());
    }
    Err(Error::invalid(
        file,
        format!("a vocabulary of {vocab_size} tokens; n-gram tables hold 1 to {most}"),
    ))
}
