//! The tensors of a small file, all of them.

use std::collections::BTreeMap;
use std::path::Path;

use cascade_hub::{ModelFile, WeightFormat};

use crate::{Checkpoint, Result};

/// A tensor in f32, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// The sizes of the tensor, outermost first.
    pub shape: Vec<usize>,
    /// The numbers of the tensor.
    pub values: Vec<f32>,
}

/// All tensors of a file by name: safetensors, or what PyTorch saved if its name ends in `.bin`.
/// For files that are no models; those of models are opened by [`Checkpoint::open`].
///
/// # Errors
/// A file that cannot be read or is damaged, or a tensor that is not of finite floats, by name.
pub fn read_tensors(path: &Path) -> Result<BTreeMap<String, NamedTensor>> {
    let format = match path.extension() {
        Some(ending) if ending == "bin" => WeightFormat::PyTorch,
        _ => WeightFormat::Safetensors,
    };
    let file = Checkpoint::open_file(format, ModelFile::Disk(path.to_owned()))?;
    let read = |(name, info): (String, crate::TensorInfo)| {
        let stored = file.finite(&name, &info.shape)?;
        let values = stored.dtype.to_f32(&stored.bytes);
        let shape = info.shape;
        Ok((name, NamedTensor { shape, values }))
    };
    file.infos().into_iter().map(read).collect()
}
