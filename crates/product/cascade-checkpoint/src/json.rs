//! JSON files.

use cascade_hub::ModelFile;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// Reads a JSON file.
///
/// # Errors
/// [`Error::Source`] for a file that cannot be read; [`Error::Json`].
pub fn read_json<T: DeserializeOwned>(file: &ModelFile) -> Result<T> {
    serde_json::from_slice(&file.read()?).map_err(|source| Error::Json {
        file: file.to_string(),
        source,
    })
}
