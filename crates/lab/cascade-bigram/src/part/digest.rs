//! What a file of partial counts is checked by.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::pairs::Count;

/// A hash of a file's metadata and of its rows in their order.
pub(super) struct RowDigest(Sha256);

impl RowDigest {
    pub(super) fn new(metadata: &str) -> Self {
        Self(Sha256::new_with_prefix(metadata))
    }

    pub(super) fn add(&mut self, (key, count): Count) {
        let mut row = [0; 16];
        row[..8].copy_from_slice(&key.to_le_bytes());
        row[8..].copy_from_slice(&count.to_le_bytes());
        self.0.update(row);
    }

    pub(super) fn finish(&self) -> String {
        self.0
            .clone()
            .finalize()
            .iter()
            .fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            })
    }
}
