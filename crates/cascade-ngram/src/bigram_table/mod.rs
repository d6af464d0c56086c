//! Bigram tables: what most often follows each token.

mod check;
mod encode;
mod import;
mod layout;
mod metadata;
mod rows;
mod table;

pub use import::{export_json, import_json};
pub use metadata::BigramMetadata;
pub(crate) use rows::check_tokens;
pub use rows::BigramRows;
pub use table::{BigramTable, Successors};

/// Names of the tensors in a file.
mod tensor {
    pub(super) const OFFSETS: &str = "offsets";
    pub(super) const SUCCESSORS: &str = "successors";
    pub(super) const COUNTS: &str = "counts";
    pub(super) const UNIGRAM_COUNTS: &str = "unigram_counts";
}
