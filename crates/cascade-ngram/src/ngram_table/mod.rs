//! N-gram tables: what most often follows each token and each pair of tokens, packed.

mod bigrams;
mod check;
mod codes;
mod import;
mod layout;
mod metadata;
mod rows;
mod table;

pub use import::import_json;
pub use metadata::NgramMetadata;
pub use rows::{NgramLimits, NgramRows};
pub use table::{Continuations, NgramTable};

use cascade_core::TokenId;

use crate::{Error, Result};

/// Names of the tensors in a file.
mod tensor {
    pub(super) const UNIGRAM_COUNTS: &str = "unigram_counts";
    pub(super) const BLOCKS: &str = "blocks";
    pub(super) const ENTRIES: &str = "entries";
    pub(super) const FIRSTS: &str = "firsts";
    pub(super) const UNIGRAMS: &str = "unigrams";
    pub(super) const SECONDS: &str = "seconds";
    pub(super) const TOTALS: &str = "totals";
    pub(super) const LENGTHS: &str = "lengths";
}

/// Contexts of a table have at most this many tokens.
const LONGEST: usize = 2;

/// Tokens whose own frequency a table holds, at most.
const UNIGRAMS: usize = 64;

/// Contexts whose entries are found from one number of `blocks`.
const BLOCK: usize = 32;

/// Refuses tokens outside the vocabulary; `what` names the list.
fn check_tokens(what: &str, tokens: &[TokenId], vocab_size: usize) -> Result<()> {
    match tokens.iter().position(|&t| t as usize >= vocab_size) {
        None => Ok(()),
        Some(index) => Err(Error::TokenOutOfVocabulary {
            what: what.to_owned(),
            index,
            token: tokens[index],
            vocab_size,
        }),
    }
}
