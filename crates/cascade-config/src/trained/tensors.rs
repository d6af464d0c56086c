//! Networks as safetensors files.

use std::collections::HashMap;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError};

/// The tensors of a file: name, shape and bytes.
#[derive(Default)]
pub(crate) struct Tensors(Vec<(String, Vec<usize>, Vec<u8>)>);

impl Tensors {
    /// Adds one; numbers row-major.
    pub(crate) fn add(&mut self, name: String, shape: Vec<usize>, numbers: &[f32]) {
        let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.0.push((name, shape, bytes));
    }

    /// The file, with an entry of its metadata.
    pub(crate) fn to_bytes(&self, key: &str, value: String) -> Result<Vec<u8>, SafeTensorError> {
        let mut views = Vec::with_capacity(self.0.len());
        for (name, shape, bytes) in &self.0 {
            views.push((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?));
        }
        let metadata = HashMap::from([(key.to_owned(), value)]);
        safetensors::serialize(views, Some(metadata))
    }
}
