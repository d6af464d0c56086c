//! The state of a training in a file.

use std::collections::HashMap;
use std::path::Path;

use candle_core::safetensors::Load;
use candle_core::{Device, Tensor};
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use crate::train::error::ErrorKind;
use crate::train::{Error, Result};

/// The largest checkpoint that is read: that of a head on hidden states of 8,192 numbers.
const LARGEST: u64 = 4 << 30;

/// The key of the state in the file's metadata.
const STATE: &str = "cascade-train";

/// Everything of a training's state but the tensors. Numbers are kept as their bits: text would
/// round them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    /// The fingerprint of settings and examples: a training that resumes must have the same.
    pub(crate) fingerprint: String,
    /// The bits of each epoch's losses: on the training examples, and on the outputs to choose by.
    pub(crate) losses: Vec<[u64; 2]>,
}

/// Writes tensors and state, as a whole.
pub(crate) fn save(path: &Path, state: &State, tensors: Vec<(String, Tensor)>) -> Result<()> {
    let text = serde_json::to_string(state).map_err(|error| wrong(path, error))?;
    write(path, (STATE, text), tensors)
}

/// What [`save`] wrote; `None` if there is no file.
pub(crate) fn load(path: &Path) -> Result<Option<(State, HashMap<String, Tensor>)>> {
    let Some(bytes) = read(path, LARGEST)? else {
        return Ok(None);
    };
    let (state, file) = open(path, &bytes, STATE)?;
    let state = state.ok_or_else(|| wrong(path, "it is no checkpoint of a training"))?;
    let state =
        serde_json::from_str(&state).map_err(|error| wrong(path, format!("its state: {error}")))?;
    let mut tensors = HashMap::new();
    for (name, view) in file.iter() {
        if view.dtype() != Dtype::F32 {
            let problem = format!("`{name}` is {:?}, not F32", view.dtype());
            return Err(wrong(path, problem));
        }
        tensors.insert(name.to_owned(), view.load(&Device::Cpu)?);
    }
    Ok(Some((state, tensors)))
}

/// Writes tensors, and a text by which the file is known again, as a whole.
pub(crate) fn write(
    path: &Path,
    (key, text): (&str, String),
    tensors: Vec<(String, Tensor)>,
) -> Result<()> {
    let metadata = HashMap::from([(key.to_owned(), text)]);
    let file =
        safetensors::serialize(tensors, Some(metadata)).map_err(|error| wrong(path, error))?;
    cascade_core::fs::write(path, &file).map_err(|source| Error::io("write", path, source))
}

/// The bytes of a file; `None` if there is none.
pub(crate) fn read(path: &Path, largest: u64) -> Result<Option<Vec<u8>>> {
    match cascade_core::fs::read(path, largest) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("read", path, source)),
        Ok(bytes) => Ok(Some(bytes)),
    }
}

/// The text of [`write`], if there is one, and the tensors.
pub(crate) fn open<'b>(
    path: &Path,
    bytes: &'b [u8],
    key: &str,
) -> Result<(Option<String>, SafeTensors<'b>)> {
    let header = SafeTensors::read_metadata(bytes);
    let (_, header) = header.map_err(|error| wrong(path, error))?;
    let text = header.metadata().as_ref().and_then(|m| m.get(key));
    let file = SafeTensors::deserialize(bytes).map_err(|error| wrong(path, error))?;
    Ok((text.cloned(), file))
}

/// A file that is not what it should be.
pub(crate) fn wrong(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Checkpoint,
        format!(
            "{}: {problem}; give another file, or remove it to begin anew",
            path.display()
        ),
    )
}
