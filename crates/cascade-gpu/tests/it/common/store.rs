//! Weights that tests make up.

use std::collections::HashMap;

use cascade_gpu::{Error, Result, StorageDType, TensorSource, Weights};
use rand::rngs::StdRng;
use rand::Rng;

use super::numbers;

struct Tensor {
    shape: Vec<usize>,
    stored: StorageDType,
    bytes: Vec<u8>,
    values: Vec<f32>,
}

/// Tensors by name, and the numbers in them.
#[derive(Default)]
pub(crate) struct Store(HashMap<String, Tensor>);

impl Store {
    /// Adds `values`, as far as `stored` can hold them.
    pub(crate) fn put(
        &mut self,
        name: &str,
        shape: &[usize],
        stored: StorageDType,
        values: &[f32],
    ) {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        let (values, bytes): (Vec<f32>, Vec<Vec<u8>>) = values
            .iter()
            .map(|&value| numbers::store(value, stored))
            .unzip();
        let tensor = Tensor {
            shape: shape.to_vec(),
            stored,
            bytes: bytes.concat(),
            values,
        };
        self.0.insert(name.to_owned(), tensor);
    }

    /// Adds random numbers between `-scale` and `scale`.
    pub(crate) fn random(
        &mut self,
        rng: &mut StdRng,
        name: &str,
        shape: &[usize],
        stored: StorageDType,
        scale: f32,
    ) {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count)
            .map(|_| rng.random_range(-scale..=scale))
            .collect();
        self.put(name, shape, stored, &values);
    }

    fn tensor_of(&self, name: &str, shape: &[usize]) -> Result<&Tensor> {
        let wrong = |what: &str| Error::Weights(format!("{name} {what}").into());
        let tensor = self.0.get(name).ok_or_else(|| wrong("is missing"))?;
        if tensor.shape == shape {
            Ok(tensor)
        } else {
            Err(wrong("has another shape"))
        }
    }

    /// The numbers that `name` holds.
    pub(crate) fn values(&self, name: &str) -> &[f32] {
        &self.0[name].values
    }
}

impl Weights for Store {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<TensorSource<'_>> {
        let tensor = self.tensor_of(name, shape)?;
        Ok(TensorSource::Values {
            stored: tensor.stored,
            bytes: tensor.bytes.as_slice().into(),
        })
    }

    fn blocks(&self, name: &str, shape: [usize; 2]) -> Result<TensorSource<'_>> {
        let tensor = self.tensor_of(name, &shape)?;
        Ok(TensorSource::Values {
            stored: StorageDType::Q8,
            bytes: numbers::blocks(&tensor.values).into(),
        })
    }
}
