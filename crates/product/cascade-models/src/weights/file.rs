//! What a reader of weights gives, whatever the format.

use std::borrow::Cow;

use cascade_cpu::Format;

use super::{InPlace, Named};
use crate::{DType, Result};

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
    fn in_place(&self, _tensor: &str) -> Option<InPlace<'_>> {
        None
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
pub(crate) struct Blocks<'a> {
    pub(crate) format: Format,
    pub(crate) bytes: Cow<'a, [u8]>,
}

/// What a file says of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorInfo {
    /// Its sizes, outermost first.
    pub(crate) shape: Vec<usize>,
    /// The type it is stored in, as the format calls it.
    pub(crate) dtype: String,
}

/// The values of a tensor: row-major, little-endian.
#[derive(Clone, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) dtype: FloatType,
    pub(crate) bytes: Cow<'a, [u8]>,
}

impl Stored<'_> {
    /// Refuses values that are not finite in f32. Costs one pass over them.
    ///
    /// # Errors
    /// [`Error::NotFinite`](crate::Error::NotFinite).
    pub(crate) fn finite(&self, name: Named<'_>, shape: &[usize]) -> Result<()> {
        name.check(self.dtype, &self.bytes, shape)
    }
}

/// A type in which readers give values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatType {
    F32,
    F16,
    BF16,
    F64,
}

#[cfg(test)]
mod tensors {
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
