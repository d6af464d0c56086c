//! JSON files.

use cascade_hub::ModelFile;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// Reads a JSON file.
///
/// # Errors
/// If it cannot be read, or is not the JSON that it should be.
pub fn read_json<T: DeserializeOwned>(file: &ModelFile) -> Result<T> {
    let invalid = |source| Error::json(file, format_args!(" is not valid JSON: {source}"));
    serde_json::from_slice(&file.read()?).map_err(invalid)
}
