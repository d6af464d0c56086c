//! Files that are written whole or not at all.

use std::path::Path;

use crate::error::{Error, Result};

/// Replaces a file; a reader sees its old bytes or its new ones, see [`cascade_core::fs::write`].
///
/// # Errors
/// If the folder does not exist or cannot be written to; the old file is then unchanged.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    cascade_core::fs::write(path, bytes).map_err(Error::io("write", path))
}
