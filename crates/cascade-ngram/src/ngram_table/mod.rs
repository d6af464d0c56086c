//! N-gram tables: what most often follows each token and each pair of tokens, packed.

mod builder;
mod check;
mod codes;
mod layout;
mod metadata;
mod of_bigrams;
mod rows;
mod table;

pub use builder::NgramBuilder;
pub use metadata::NgramMetadata;
pub use rows::{NgramLimits, NgramRows};
pub use table::{Continuations, NgramTable};

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
