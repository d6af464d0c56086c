//! Import and export in the format of the paper's authors.

use std::path::Path;

use cascade_core::TokenId;

use super::{encode::Csr, rows::check_tokens, BigramMetadata, BigramTable};
use crate::{Error, Provenance, Result};

/// The largest list that is read: ten numbers for each of the largest vocabularies take less.
const LARGEST_LIST: u64 = 256 * cascade_core::fs::MIB;

/// Imports a table in the form that the paper's authors use: a JSON list with, for each token of
/// the vocabulary, the id of the token that follows it most often.
///
/// The list has one successor for every token and no counts, so the table has `top_k` 1, every
/// count is 1, and so is every unigram count; the number of documents and the totals are 0.
///
/// # Errors
/// A file that cannot be read, is not such a list, or names a token that the list has no entry for.
pub fn import_json(path: impl AsRef<Path>, provenance: Provenance) -> Result<BigramTable> {
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
    let metadata = BigramMetadata {
        provenance,
        top_k: 1,
        min_count: 1,
        documents: 0,
        total_tokens: 0,
        total_bigrams: 0,
    };
    let rows: Vec<_> = next.iter().map(|&token| vec![(token, 1)]).collect();
    BigramTable::from_csr(&file, &metadata, &Csr::new(&rows, vec![1; next.len()]))
}

/// The table's most frequent successors in the form that [`import_json`] reads: a JSON list with
/// one token id for each token of the vocabulary.
///
/// The format has no entry for a token without successors; it gets the most frequent
/// token of all, of equally frequent ones the first.
pub fn export_json(table: &BigramTable) -> String {
    let tokens = 0..table.vocab_size() as TokenId;
    let frequent = tokens
        .clone()
        .max_by_key(|&token| (table.unigram_count(token), std::cmp::Reverse(token)))
        .unwrap_or_default();
    let next: Vec<TokenId> = tokens
        .map(|token| table.best(token).unwrap_or(frequent))
        .collect();
    serde_json::json!(next).to_string()
}
