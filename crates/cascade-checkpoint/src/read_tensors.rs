//! The tensors of a small file, all of them.

use std::collections::BTreeMap;
use std::path::Path;

use cascade_hub::ModelFile;

use crate::finite::Named;
use crate::tensor::TensorFile;
use crate::{pytorch, safetensors, Error, Result};

/// A tensor in f32, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// The sizes of the tensor, outermost first.
    pub shape: Vec<usize>,
    /// The numbers of the tensor.
    pub values: Vec<f32>,
}

/// All tensors of a file by name: safetensors, or what PyTorch saved if its name ends in `.bin`.
/// For files that are no models; those of models are opened by
/// [`Checkpoint::open`](crate::Checkpoint::open).
///
/// # Errors
/// A file that cannot be read or is damaged, or a tensor that is not of finite floats, by name.
pub fn read_tensors(path: &Path) -> Result<BTreeMap<String, NamedTensor>> {
    let file = ModelFile::Disk(path.to_owned());
    let pickled = path.extension().is_some_and(|ending| ending == "bin");
    let reader: Box<dyn TensorFile> = if pickled {
        Box::new(pytorch::PyTorch::open(&file)?)
    } else {
        Box::new(safetensors::Safetensors::open(&file)?)
    };
    let mut tensors = BTreeMap::new();
    for (name, info) in reader.tensors() {
        let Some(stored) = reader.load(&name)? else {
            return Err(Error::tensor_type(reader.name(), &name, &info.dtype));
        };
        let named = Named {
            file: Some(reader.name()),
            tensor: &name,
        };
        stored.finite(named, &info.shape)?;
        let values = stored.dtype.to_f32(&stored.bytes);
        let shape = info.shape;
        tensors.insert(name, NamedTensor { shape, values });
    }
    Ok(tensors)
}
