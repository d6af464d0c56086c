//! The container of tables: a safetensors file that is read in place.

mod entries;
mod file;

use std::ops::Range;

use safetensors::{Dtype, tensor::Metadata};
use serde_json::{Map, Value, json};

pub(crate) use self::entries::{BIGRAMS, Entries, NGRAMS, beginning};
pub(crate) use self::file::TableFile;
use crate::{Error, Result};

/// A tensor of one dimension that is to be written.
pub(crate) struct Tensor {
    name: &'static str,
    dtype: &'static str,
    len: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Tensor {
    pub(crate) fn u64(name: &'static str, values: &[u64]) -> Self {
        Self::new(name, "U64", values, u64::to_le_bytes)
    }

    pub(crate) fn u32(name: &'static str, values: &[u32]) -> Self {
        Self::new(name, "U32", values, u32::to_le_bytes)
    }

    pub(crate) fn u16(name: &'static str, values: &[u16]) -> Self {
        Self::new(name, "U16", values, u16::to_le_bytes)
    }

    pub(crate) fn u8(name: &'static str, values: &[u8]) -> Self {
        Self::new(name, "U8", values, u8::to_le_bytes)
    }

    fn new<T: Copy, const N: usize>(
        name: &'static str,
        dtype: &'static str,
        values: &[T],
        to_bytes: fn(T) -> [u8; N],
    ) -> Self {
        Self {
            name,
            dtype,
            len: values.len(),
            bytes: values.iter().copied().flat_map(to_bytes).collect(),
        }
    }
}

/// The safetensors file of these tensors, which should come by falling width, so that all are
/// aligned. Equal content gives equal bytes: the order of everything in the header is fixed, which
/// the safetensors crate does not promise for metadata.
pub(crate) fn encode<'a>(
    metadata: impl IntoIterator<Item = (&'a str, String)>,
    tensors: Vec<Tensor>,
) -> Vec<u8> {
    let entries: Map<String, Value> = metadata
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect();
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), Value::from(entries));
    let mut data = Vec::new();
    for mut tensor in tensors {
        let start = data.len();
        data.append(&mut tensor.bytes);
        let info = json!({
            "dtype": tensor.dtype,
            "shape": [tensor.len],
            "data_offsets": [start, data.len()],
        });
        header.insert(tensor.name.to_owned(), info);
    }
    let mut header = Value::from(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut header);
    bytes.append(&mut data);
    bytes
}

/// The tensors of a file: the file's name, its header, and the byte at which their data begin.
pub(crate) struct Tensors<'a>(
    pub(crate) &'a str,
    pub(crate) &'a Metadata,
    pub(crate) usize,
);

impl Tensors<'_> {
    /// The length of a tensor of one dimension, and its bytes in the file.
    ///
    /// # Errors
    /// A tensor that is missing, of another type, or of more dimensions.
    pub(crate) fn find(
        &self,
        tensor: &'static str,
        expected: Dtype,
    ) -> Result<(usize, Range<usize>)> {
        let &Self(file, header, data) = self;
        let Some(info) = header.info(tensor) else {
            let reason = format!("tensor `{tensor}` is missing");
            return Err(Error::invalid(file, reason));
        };
        if info.dtype != expected {
            let found = info.dtype;
            let reason = format!("tensor `{tensor}` is {found:?}, expected {expected:?}");
            return Err(Error::invalid(file, reason));
        }
        let &[len] = info.shape.as_slice() else {
            return Err(self.wrong_shape(tensor, &info.shape, "one dimension"));
        };
        let (start, end) = info.data_offsets;
        Ok((len, data + start..data + end))
    }

    /// The bytes of a tensor of a known length; `why` says what it is the length of.
    ///
    /// # Errors
    /// As [`find`](Self::find), and another length.
    pub(crate) fn sized(
        &self,
        tensor: &'static str,
        expected: Dtype,
        length: usize,
        why: &str,
    ) -> Result<Range<usize>> {
        let (found, range) = self.find(tensor, expected)?;
        if found == length {
            return Ok(range);
        }
        Err(self.wrong_shape(tensor, &[found], &format!("[{length}], {why}")))
    }

    pub(crate) fn wrong_shape(&self, tensor: &str, found: &[usize], expected: &str) -> Error {
        let reason = format!("tensor `{tensor}` has shape {found:?}, expected {expected}");
        Error::invalid(self.0, reason)
    }
}
