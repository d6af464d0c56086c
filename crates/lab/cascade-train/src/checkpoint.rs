//! The state of a training in a file.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The largest checkpoint that is read: that of a head on hidden states of 8,192 numbers.
const LARGEST: u64 = 4 << 30;

/// The key of the state in the file's metadata.
const STATE: &str = "cascade-train";

/// Everything of a training's state but the tensors. Numbers are kept as their bits: text would
/// round them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    /// Of settings and examples: what is resumed must have the same.
    pub(crate) fingerprint: String,
    /// The bits of each epoch's losses: on the training examples, and on the outputs to choose by.
    pub(crate) losses: Vec<[u64; 2]>,
}

/// Writes tensors and state, as a whole.
pub(crate) fn save(path: &Path, state: &State, tensors: &[(String, Tensor)]) -> Result<()> {
    let mut bytes = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let numbers = tensor.flatten_all()?.to_vec1::<f32>()?;
        let raw: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        bytes.push((name, tensor.dims().to_vec(), raw));
    }
    let problem = |error: &dyn std::fmt::Display| Error::Checkpoint {
        file: path.to_owned(),
        problem: error.to_string(),
    };
    let mut views = Vec::with_capacity(bytes.len());
    for (name, shape, raw) in &bytes {
        let view = TensorView::new(Dtype::F32, shape.clone(), raw);
        views.push((name.as_str(), view.map_err(|error| problem(&error))?));
    }
    let text = serde_json::to_string(state).map_err(|error| problem(&error))?;
    let metadata = HashMap::from([(STATE.to_owned(), text)]);
    let file = safetensors::serialize(views, Some(metadata)).map_err(|error| problem(&error))?;
    cascade_fs::write(path, &file).map_err(|source| Error::Io {
        action: "write",
        file: path.to_owned(),
        source,
    })
}

/// What [`save`] wrote; `None` if there is no file.
pub(crate) fn load(path: &Path) -> Result<Option<(State, HashMap<String, Tensor>)>> {
    let bytes = match cascade_fs::read(path, LARGEST) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(Error::Io {
                action: "read",
                file: path.to_owned(),
                source,
            })
        }
        Ok(bytes) => bytes,
    };
    let problem = |problem: String| Error::Checkpoint {
        file: path.to_owned(),
        problem,
    };
    let (_, header) =
        SafeTensors::read_metadata(&bytes).map_err(|error| problem(error.to_string()))?;
    let state = header.metadata().as_ref().and_then(|m| m.get(STATE));
    let state = state.ok_or_else(|| problem("it is no checkpoint of a training".to_owned()))?;
    let state: State =
        serde_json::from_str(state).map_err(|error| problem(format!("its state: {error}")))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| problem(error.to_string()))?;
    let mut tensors = HashMap::new();
    for (name, view) in file.iter() {
        if view.dtype() != Dtype::F32 {
            return Err(problem(format!("`{name}` is {:?}, not F32", view.dtype())));
        }
        let numbers: Vec<f32> = view
            .data()
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        let tensor = Tensor::from_vec(numbers, view.shape(), &Device::Cpu)?;
        tensors.insert(name.to_owned(), tensor);
    }
    Ok(Some((state, tensors)))
}
