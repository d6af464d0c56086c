//! The layout of a table's tensors in its bytes.

use std::ops::Range;

use safetensors::{tensor::Metadata, Dtype};

use super::tensor;
use crate::{Error, Result};

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

/// Length of a tensor of one dimension, and its place in the file.
fn find(
    file: &str,
    header: &Metadata,
    data: usize,
    tensor: &'static str,
    expected: Dtype,
) -> Result<(usize, Range<usize>)> {
    let Some(info) = header.info(tensor) else {
        return Err(Error::invalid(
            file,
            format!("tensor `{tensor}` is missing"),
        ));
    };
    if info.dtype != expected {
        let found = info.dtype;
        let reason = format!("tensor `{tensor}` is {found:?}, expected {expected:?}");
        return Err(Error::invalid(file, reason));
    }
    let &[len] = info.shape.as_slice() else {
        return Err(wrong_shape(file, tensor, &info.shape, "one dimension"));
    };
    let (start, end) = info.data_offsets;
    Ok((len, data + start..data + end))
}

fn wrong_shape(file: &str, tensor: &str, found: &[usize], expected: &str) -> Error {
    let reason = format!("tensor `{tensor}` has shape {found:?}, expected {expected}");
    Error::invalid(file, reason)
}
