//! Import of tables in the form that the paper's authors use.

use std::path::Path;

use cascade_core::TokenId;

use super::{NgramLimits, NgramMetadata, NgramRows, NgramTable, check_tokens};
use crate::{Error, Provenance, Result};

/// The largest list that is read: ten numbers for each of the largest vocabularies take less.
const LARGEST_LIST: u64 = 256 * cascade_core::fs::MIB;

/// Imports a table in the form that the paper's authors use: a JSON list with, for each token of
/// the vocabulary, the id of the token that follows it most often.
///
/// The list has one successor for every token and no counts, so the table has order 1 and `top_k`
/// 1, and every count and frequency is 1; the numbers of documents and of bigrams are 0.
///
/// # Errors
/// A file that cannot be read, is not such a list, or names a token that the list has no entry for.
pub fn import_json(path: impl AsRef<Path>, provenance: Provenance) -> Result<NgramTable> {
    let path = path.as_ref();
    let file = path.display().to_string();
    let json = cascade_core::fs::read(path, LARGEST_LIST).map_err(|source| Error::Read {
        file: path.to_owned(),
        source,
    })?;
    let next: Vec<TokenId> = serde_json::from_slice(&json).map_err(|source| Error::Json {
        file: file.clone(),
        source,
    })?;
    check_tokens(&file, &next, next.len())?;
    let limits = NgramLimits {
        top_k: 1,
        min_count: 1,
        min_context: 0,
    };
    let mut rows = NgramRows::new(1, next.len(), limits)
        .map_err(|error| Error::invalid(&file, error.to_string()))?;
    for (token, next) in (0..).zip(next) {
        rows.add_token(token, 1)?;
        rows.add_pair(token, next, 1)?;
    }
    let metadata = NgramMetadata {
        total_bigrams: 0,
        ..rows.metadata(0, provenance)
    };
    rows.encode(&file, &metadata)
}
