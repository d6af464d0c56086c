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

/// The tensors of a file: its name, its header, and the byte where data begins.
struct Tensors<'a>(&'a str, &'a Metadata, usize);

impl Tensors<'_> {
    /// The length of a tensor, and its bytes.
    fn find(&self, tensor: &'static str, expected: Dtype) -> Result<(usize, Range<usize>)> {
        find(self.0, self.1, self.2, tensor, expected)
    }

    /// The bytes of a tensor of this length.
    fn sized(&self, tensor: &'static str, expected: Dtype, length: usize) -> Result<Range<usize>> {
        let (found, range) = self.find(tensor, expected)?;
        if found == length {
            return Ok(range);
        }
        let what = match tensor {
            tensor::UNIGRAM_COUNTS => "as `unigrams`",
            tensor::BLOCKS => "one for each 32 contexts and the end",
            tensor::FIRSTS => "one more than the vocabulary",
            _ => "one for each context",
        };
        let expected = format!("[{length}], {what}");
        Err(wrong_shape(self.0, tensor, &[found], &expected))
    }
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
        let tensors = Tensors(file, header, data);
        let (unigram_tokens, unigrams) = tensors.find(tensor::UNIGRAMS, Dtype::U32)?;
        if unigram_tokens > UNIGRAMS {
            let expected = format!("at most {UNIGRAMS} tokens");
            let found = [unigram_tokens];
            return Err(wrong_shape(file, tensor::UNIGRAMS, &found, &expected));
        }
        let (second_width, dtype) = if is_narrow(vocab_size) {
            (2, Dtype::U16)
        } else {
            (4, Dtype::U32)
        };
        let (pairs, seconds) = tensors.find(tensor::SECONDS, dtype)?;
        let contexts = vocab_size + pairs;
        let blocks = contexts.div_ceil(BLOCK) + 1;
        let (continuations, entries) = tensors.find(tensor::ENTRIES, Dtype::U32)?;
        let sized = |tensor, expected, length| tensors.sized(tensor, expected, length);
        Ok(Self {
            vocab_size,
            pairs,
            continuations,
            unigram_tokens,
            second_width,
            unigram_counts: sized(tensor::UNIGRAM_COUNTS, Dtype::U64, unigram_tokens)?,
            unigrams,
            blocks: sized(tensor::BLOCKS, Dtype::U32, blocks)?,
            entries,
            firsts: sized(tensor::FIRSTS, Dtype::U32, vocab_size + 1)?,
            seconds,
            totals: sized(tensor::TOTALS, Dtype::U16, contexts)?,
            lengths: sized(tensor::LENGTHS, Dtype::U8, contexts)?,
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
