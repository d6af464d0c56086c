//! Where tables come from.

use cascade_core::Fingerprint;
use serde::{Deserialize, Serialize};

/// A file that was counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// The name of the file, without the folders that it was in.
    pub name: String,
    /// The size of the file on the disk; `None` for a stream.
    pub bytes: Option<u64>,
    /// The date of the dump, as 2024-06-01, where the name of the file or of its folder contains
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dump_date: Option<String>,
}

/// Where a table comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The vocabulary that its token ids belong to.
    pub tokenizer: Fingerprint,
    /// The files that were counted. A table holds them sorted, in whatever order they were given.
    pub sources: Vec<Source>,
    /// The command that made it, without options that do not affect the content (threads, memory,
    /// folders).
    pub command: String,
    /// Version of the program that made it.
    pub version: String,
}
