//! The container of tables: a safetensors file that is read in place.

mod bytes;
mod entries;
mod file;

use std::ops::Range;

use safetensors::{tensor::Metadata, Dtype};
use serde_json::{json, Map, Value};

use self::bytes::Bytes;
pub(crate) use self::entries::{beginning, declare, Entries, BIGRAMS, NGRAMS};
pub(crate) use self::file::{table_file, TableFile};
use crate::{Error, Result};

/// A tensor of one dimension that is to be written.
pub(crate) struct Tensor {
    pub(crate) name: &'static str,
    pub(crate) dtype: &'static str,
    pub(crate) len: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Tensor {
    pub(crate) fn u64(name: &'static str, values: &[u64]) -> Self {
        Self::new(name, "U64", values.iter().map(|value| value.to_le_bytes()))
    }

    pub(crate) fn u32(name: &'static str, values: &[u32]) -> Self {
        Self::new(name, "U32", values.iter().map(|value| value.to_le_bytes()))
    }

    pub(crate) fn u16(name: &'static str, values: &[u16]) -> Self {
        Self::new(name, "U16", values.iter().map(|value| value.to_le_bytes()))
    }

    pub(crate) fn u8(name: &'static str, values: &[u8]) -> Self {
        Self::new(name, "U8", values.iter().map(|value| [*value]))
    }

    fn new<const N: usize>(
        name: &'static str,
        dtype: &'static str,
        values: impl ExactSizeIterator<Item = [u8; N]>,
    ) -> Self {
        Self {
            name,
            dtype,
            len: values.len(),
            bytes: values.flatten().collect(),
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

/// Length of a tensor of one dimension, and its place in a file whose tensors' data begins at byte
/// `data`.
///
/// # Errors
/// A tensor that is missing, of another type, or of more dimensions.
pub(crate) fn find(
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

pub(crate) fn wrong_shape(file: &str, tensor: &str, found: &[usize], expected: &str) -> Error {
    let reason = format!("tensor `{tensor}` has shape {found:?}, expected {expected}");
    Error::invalid(file, reason)
}
