//! What a reader of weights gives, whatever the format.

use std::borrow::Cow;
use std::ops::Range;

use cascade_cpu::{dequantize, Format};

use crate::dtype::{DType, FloatType};
use crate::finite::{Named, Scales};
use crate::Result;

/// A file of tensors by name: one format, one implementation.
///
/// Opening it checks everything that can be checked without reading tensors, so that a wrong file
/// is refused before the first of them is copied.
pub(crate) trait TensorFile: Send + Sync {
    /// What the file is called in messages.
    fn name(&self) -> &str;

    /// All tensors, called as a checkpoint of Hugging Face calls them.
    fn tensors(&self) -> Vec<(String, TensorInfo)>;

    /// The values of one of [`tensors`](Self::tensors), where they lie if they are stored as they
    /// are given; `None` if they are of a type that is no float.
    ///
    /// # Errors
    /// If they cannot be read or make no sense.
    fn load(&self, tensor: &str) -> Result<Option<Stored<'_>>>;

    /// The blocks of one of [`tensors`](Self::tensors), if `dtype` takes them as they are, or
    /// without loss in another format.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    fn blocks(&self, _tensor: &str, _dtype: DType) -> Result<Option<Blocks<'_>>> {
        Ok(None)
    }

    /// One of [`tensors`](Self::tensors) where it lies, if its rows lie one after the other in the
    /// order of a checkpoint, in a type that there are kernels for. It stays there as long as the
    /// file is open.
    fn in_place(&self, _tensor: &str) -> Option<InPlace> {
        None
    }

    /// The bytes of a part of the file, as [`InPlace`] numbers them.
    fn part(&self, _part: usize) -> &[u8] {
        &[]
    }

    /// The values of one of [`tensors`](Self::tensors) if they are whole numbers of 64 bits.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    fn longs(&self, _tensor: &str) -> Result<Option<Vec<i64>>> {
        Ok(None)
    }

    /// What the user should know of the file, as a sentence.
    fn note(&self) -> Option<String> {
        None
    }

    /// Gives up memory in which one of [`tensors`](Self::tensors) has been read.
    fn let_go(&self, _tensor: &str) {}
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

impl Stored<'_> {
    /// Refuses values that are not finite in f32. Costs one pass over them.
    ///
    /// # Errors
    /// For the first of them.
    pub fn finite(&self, name: Named<'_>, shape: &[usize]) -> Result<()> {
        name.check(self.dtype, &self.bytes, shape)
    }
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

/// Whole numbers of 64 bits, little-endian.
pub(crate) fn longs_of(bytes: &[u8]) -> Vec<i64> {
    let (values, _) = bytes.as_chunks();
    values
        .iter()
        .map(|&value| i64::from_le_bytes(value))
        .collect()
}

/// How the rows of a matrix lie in a file, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Floats(FloatType),
    Blocks(Format),
}

impl Encoding {
    /// Whether rows are, as they are, what they would be in memory.
    pub(crate) fn is(self, dtype: DType) -> bool {
        match (self, dtype) {
            (Self::Floats(_), DType::F32) | (_, DType::Stored) => true,
            (Self::Floats(stored), DType::BF16) => stored == FloatType::BF16,
            (Self::Floats(stored), DType::F16) => stored == FloatType::F16,
            (Self::Blocks(stored), DType::Q8_0) => stored == Format::Q8_0,
            (Self::Blocks(stored), DType::Q4_0) => stored == Format::Q4_0,
            _ => false,
        }
    }

    pub(crate) fn row_bytes(self, inputs: usize) -> usize {
        match self {
            Self::Floats(stored) => inputs * stored.bytes(),
            Self::Blocks(format) => inputs / format.block_values() * format.block_bytes(),
        }
    }

    pub(crate) fn read(self, row: &[u8], values: &mut [f32]) {
        match self {
            Self::Floats(stored) => values.copy_from_slice(&stored.to_f32(row)),
            Self::Blocks(format) => dequantize(format, row, values),
        }
    }
}

/// The bytes of a matrix where they lie.
#[derive(Clone, Debug)]
pub(crate) struct InPlace {
    pub(crate) encoding: Encoding,
    pub(crate) part: usize,
    pub(crate) bytes: Range<usize>,
}

impl InPlace {
    /// The bytes of the matrix, of the file that it lies in.
    pub(crate) fn of<'f>(&self, file: &'f dyn TensorFile) -> &'f [u8] {
        &file.part(self.part)[self.bytes.clone()]
    }

    /// Refuses numbers and scales that are not finite. Costs one pass over the matrix.
    ///
    /// # Errors
    /// For the first of them.
    pub(crate) fn check(
        &self,
        file: &dyn TensorFile,
        name: Named<'_>,
        shape: &[usize],
    ) -> Result<()> {
        let bytes = self.of(file);
        match self.encoding {
            Encoding::Floats(stored) => name.check(stored, bytes, shape),
            Encoding::Blocks(format) => name.check_blocks(Scales::of_format(format), bytes, shape),
        }
    }
}

#[cfg(test)]
mod candle {
    use candle_core::{DType, Device, Result, Tensor};

    use super::{FloatType, Stored};

    impl Stored<'_> {
        /// A copy on the host.
        pub(crate) fn to_tensor(&self, shape: &[usize]) -> Result<Tensor> {
            let dtype = match self.dtype {
                FloatType::F32 => DType::F32,
                FloatType::F16 => DType::F16,
                FloatType::BF16 => DType::BF16,
                FloatType::F64 => DType::F64,
            };
            Tensor::from_raw_buffer(&self.bytes, dtype, shape, &Device::Cpu)
        }
    }
}
