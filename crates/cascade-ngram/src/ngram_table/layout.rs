//! The layout of a table's tensors in its bytes.

use std::ops::Range;

use safetensors::Dtype;

use super::codes::TOKEN_BITS;
use super::{BLOCK, UNIGRAMS, tensor};
use crate::container::Tensors;
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
    /// The layout of a file for a vocabulary of this size.
    ///
    /// # Errors
    /// Tensors that are missing, of another type, or whose shapes do not fit together; a vocabulary
    /// that is empty or too large for the format.
    pub(super) fn new(tensors: &Tensors<'_>, vocab_size: usize) -> Result<Self> {
        check_vocabulary(tensors.0, vocab_size)?;
        let (unigram_tokens, unigrams) = tensors.find(tensor::UNIGRAMS, Dtype::U32)?;
        if unigram_tokens > UNIGRAMS {
            let expected = format!("at most {UNIGRAMS} tokens");
            return Err(tensors.wrong_shape(tensor::UNIGRAMS, &[unigram_tokens], &expected));
        }
        let narrow = is_narrow(vocab_size);
        let second = if narrow { Dtype::U16 } else { Dtype::U32 };
        let (pairs, seconds) = tensors.find(tensor::SECONDS, second)?;
        let (continuations, entries) = tensors.find(tensor::ENTRIES, Dtype::U32)?;
        let contexts = vocab_size + pairs;
        let blocks = contexts.div_ceil(BLOCK) + 1;
        let sized = |name, dtype, length, why: &str| tensors.sized(name, dtype, length, why);
        let (frequent, each) = ("as `unigrams`", "one for each context");
        let begins = "one more than the vocabulary";
        Ok(Self {
            vocab_size,
            pairs,
            continuations,
            unigram_tokens,
            second_width: if narrow { 2 } else { 4 },
            unigram_counts: sized(tensor::UNIGRAM_COUNTS, Dtype::U64, unigram_tokens, frequent)?,
            unigrams,
            blocks: sized(tensor::BLOCKS, Dtype::U32, blocks, BLOCKS)?,
            entries,
            firsts: sized(tensor::FIRSTS, Dtype::U32, vocab_size + 1, begins)?,
            seconds,
            totals: sized(tensor::TOTALS, Dtype::U16, contexts, each)?,
            lengths: sized(tensor::LENGTHS, Dtype::U8, contexts, each)?,
        })
    }
}

/// The length of `blocks`, in words.
const BLOCKS: &str = "one for each 32 contexts and the end";

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
