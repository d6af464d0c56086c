//! The layout of a table's tensors in its bytes.

use std::ops::Range;

use safetensors::{tensor::Metadata, Dtype};

use super::tensor;
use crate::container::{find, wrong_shape};
use crate::Result;

/// Byte ranges of the tensors.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) vocab_size: usize,
    pub(super) pairs: usize,
    pub(super) offsets: Range<usize>,
    pub(super) successors: Range<usize>,
    pub(super) counts: Range<usize>,
    pub(super) unigram_counts: Range<usize>,
}

impl Layout {
    /// The layout of a file whose tensors' data begins at byte `data`.
    ///
    /// # Errors
    /// Tensors that are missing, of another type, or whose shapes do not fit together.
    pub(super) fn new(file: &str, header: &Metadata, data: usize) -> Result<Self> {
        let find = |tensor, expected| find(file, header, data, tensor, expected);
        let (vocab_size, unigram_counts) = find(tensor::UNIGRAM_COUNTS, Dtype::U64)?;
        let (rows, offsets) = find(tensor::OFFSETS, Dtype::U64)?;
        let (pairs, successors) = find(tensor::SUCCESSORS, Dtype::U32)?;
        let (counted, counts) = find(tensor::COUNTS, Dtype::U64)?;
        if rows != vocab_size + 1 {
            let expected = format!("[{}], one more than `unigram_counts`", vocab_size + 1);
            return Err(wrong_shape(file, tensor::OFFSETS, &[rows], &expected));
        }
        if vocab_size == 0 {
            let expected = "one count for each token";
            return Err(wrong_shape(file, tensor::UNIGRAM_COUNTS, &[0], expected));
        }
        if counted != pairs {
            let expected = format!("[{pairs}], as `successors`");
            return Err(wrong_shape(file, tensor::COUNTS, &[counted], &expected));
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
