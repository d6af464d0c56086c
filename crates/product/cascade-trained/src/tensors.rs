//! Networks as safetensors files.

use std::borrow::Cow;
use std::collections::HashMap;

use safetensors::{Dtype, SafeTensorError, View};

/// A tensor of a network: as many bytes as its shape says.
struct Tensor {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// The tensors of a file, by name.
#[derive(Default)]
pub(crate) struct Tensors(Vec<(String, Tensor)>);

impl Tensors {
    /// Adds one; numbers row-major.
    pub(crate) fn add(&mut self, name: String, shape: Vec<usize>, numbers: &[f32]) {
        let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.0.push((name, Tensor { shape, bytes }));
    }

    /// The file, with an entry of its metadata.
    pub(crate) fn to_bytes(&self, key: &str, value: String) -> Result<Vec<u8>, SafeTensorError> {
        let tensors = self.0.iter().map(|(name, tensor)| (name, tensor));
        let metadata = HashMap::from([(key.to_owned(), value)]);
        safetensors::serialize(tensors, Some(metadata))
    }
}
