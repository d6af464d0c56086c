//! Tensors where they lie in files, whatever the format.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use cascade_cpu::Format;
use cascade_hub::{ModelFile, WeightFormat};

use crate::blocks::BlockType;
use crate::bytes::Bytes;
use crate::dtype::FloatType;
use crate::finite::Scales;
use crate::pytorch::View;
use crate::{Result, gguf, pytorch, safetensors};

/// A file of weights, or all parts of one.
///
/// Opening it checks everything that can be checked without reading tensors, so that a wrong file
/// is refused before the first of them is copied.
pub(crate) struct WeightFile {
    /// What the file is called in messages.
    pub(crate) name: String,
    pub(crate) parts: Vec<Bytes>,
    /// What the user should know of the file, as a sentence.
    pub(crate) note: Option<String>,
    /// The tensors, called as a checkpoint of Hugging Face calls them.
    pub(crate) tensors: HashMap<String, Tensor>,
    /// Where storages begin whose checksums were found right.
    checked: Mutex<HashSet<usize>>,
}

/// A tensor as its file describes it, checked against the file.
pub(crate) struct Tensor {
    pub(crate) info: TensorInfo,
    /// How its values are stored, if they are floats or blocks of them.
    pub(crate) kind: Option<BlockType>,
    /// The part of the file that it lies in.
    pub(crate) part: usize,
    /// Where it lies in the part, or where the storage does that it is a view of.
    pub(crate) bytes: Range<usize>,
    pub(crate) order: Order,
}

/// The order in which a tensor lies in its file.
pub(crate) enum Order {
    /// The rows of a checkpoint, one after the other.
    Rows,
    /// Puts the rows of each head that are rotated together side by side, in so many pairs.
    Neighbours { pairs: usize },
    /// Steps through a storage.
    View(View),
}

impl WeightFile {
    /// Opens files of a format: one each, or the one that GGUF files are together.
    ///
    /// # Errors
    /// A file that cannot be read, is cut off, or is not of its format.
    pub(crate) fn open(format: WeightFormat, files: &[ModelFile]) -> Result<Vec<Self>> {
        let open = match format {
            // The parts of a model tell only together what they are.
            WeightFormat::Gguf => return Ok(vec![gguf::weights::open(files)?]),
            WeightFormat::Safetensors => safetensors::open,
            WeightFormat::PyTorch => pytorch::open,
        };
        files.iter().map(open).collect()
    }

    pub(crate) fn new(name: String, parts: Vec<Bytes>, tensors: HashMap<String, Tensor>) -> Self {
        Self {
            name,
            parts,
            note: None,
            tensors,
            checked: Mutex::default(),
        }
    }

    /// The bytes in which a tensor lies, in whatever order.
    pub(crate) fn bytes(&self, tensor: &Tensor) -> &[u8] {
        &self.parts[tensor.part][tensor.bytes.clone()]
    }

    /// The values of a tensor as they are stored, row-major.
    ///
    /// # Errors
    /// If its storage is damaged.
    pub(crate) fn values(&self, tensor: &Tensor) -> Result<Cow<'_, [u8]>> {
        let bytes = self.bytes(tensor);
        let shape = &tensor.info.shape;
        match &tensor.order {
            Order::Rows => Ok(Cow::Borrowed(bytes)),
            Order::Neighbours { pairs } => Ok(Cow::Owned(halves(bytes, shape[0], *pairs))),
            Order::View(_) if shape.contains(&0) => Ok(Cow::Borrowed(&[])),
            Order::View(view) => {
                let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
                if !checked.contains(&tensor.bytes.start) {
                    view.check(bytes)
                        .map_err(|fault| fault.corrupt(&self.name, pytorch::FORMAT))?;
                    checked.insert(tensor.bytes.start);
                }
                Ok(view.values(bytes, shape))
            }
        }
    }

    /// Gives up memory in which a tensor has been read.
    pub(crate) fn let_go(&self, tensor: &Tensor) {
        self.parts[tensor.part].let_go(tensor.bytes.clone());
    }
}

/// Rows in which neighbours are rotated together, in the order of a checkpoint: of each head, the
/// first numbers of all pairs, then the second ones.
fn halves(bytes: &[u8], count: usize, pairs: usize) -> Vec<u8> {
    let width = bytes.len() / count;
    let heads = bytes.chunks_exact(2 * pairs * width);
    let mut ordered = Vec::with_capacity(bytes.len());
    for head in heads {
        for first in [0, 1] {
            let rows = head.chunks_exact(width).skip(first).step_by(2);
            rows.for_each(|row| ordered.extend_from_slice(row));
        }
    }
    ordered
}

/// A matrix in blocks, row-major.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    /// What the blocks are.
    pub format: Format,
    /// The file's own, or made of them.
    pub bytes: Cow<'a, [u8]>,
}

/// What a file says of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// The sizes of the tensor, outermost first.
    pub shape: Vec<usize>,
    /// The type it is stored in, as the format calls it.
    pub dtype: String,
}

/// The values of a tensor: row-major, little-endian.
#[derive(Clone, Debug)]
pub struct Stored<'a> {
    /// Their type.
    pub dtype: FloatType,
    /// In the file, or made of what is there.
    pub bytes: Cow<'a, [u8]>,
}

/// Whether finite values were rounded to finite numbers.
pub fn fits(format: Format, blocks: &[u8]) -> bool {
    let floats = |dtype: FloatType| dtype.first_improper(blocks).is_none();
    match format {
        Format::F32 => true,
        Format::BF16 => floats(FloatType::BF16),
        Format::F16 => floats(FloatType::F16),
        _ => Scales::of_format(format).first_improper(blocks).is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_the_order_of_a_checkpoint() {
        // Two heads of six rows of two bytes, numbered as they were in the checkpoint.
        let stored = [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11].map(|row: u8| [row, row]);
        let expected: Vec<u8> = (0..12).flat_map(|row| [row, row]).collect();
        assert_eq!(halves(stored.as_flattened(), 12, 3), expected);
    }
}
