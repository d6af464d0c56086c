//! Statistical drafters: they predict the next tokens from the text so far and from counts, at
//! negligible cost.
//!
//! * [`MaxGram`]: what followed the longest suffix of the context where it occurred before (Cascade
//!   Speculative Drafting, §3.3), found by an incremental [`SuffixAutomaton`], and a bigram table
//!   where nothing occurred before.
//! * [`MaxGramTree`]: the tree of the most probable continuations by all matching contexts, a
//!   static table, earlier answers and what the target said elsewhere, together.
//! * [`Bigram`]: each token's most frequent successor, from an [`NgramTable`] alone.
//! * [`PromptLookup`]: the baseline that looks for n-grams of at most three tokens.
//!
//! All but the tree propose chains unless they are configured to branch: into what followed other
//! occurrences, or into less frequent successors.
//!
//! Each has a configuration of its own ([`DrafterConfig`]), which is read by serde and opened with
//! [`Resources`]; [`Builtin`] lists them by their keys, and [`drafter_kinds!`] makes longer lists.
//!
//! Tables are safetensors files ([`NgramTable`]) of what follows one token, or one and two tokens.
//! They are made from sorted counts by [`NgramRows`] (crate `cascade-bigram` counts whole dumps) or
//! imported by [`import_json`].

mod automaton;
mod bigram;
mod branches;
mod builtin;
mod config;
mod container;
mod error;
mod max_gram;
pub mod max_gram_tree;
mod ngram_table;
mod prompt_lookup;
mod provenance;

pub use automaton::{Match, SuffixAutomaton};
pub use bigram::{Bigram, BigramConfig};
pub use builtin::Builtin;
pub use config::{
    DrafterConfig, DrafterFactory, DrafterKey, DrafterKinds, Draw, Keyed, OpenError, Resources,
    TableLocator, positive,
};
pub use error::{Error, Result};
pub use max_gram::{MaxGram, MaxGramConfig, Occurrence};
pub use max_gram_tree::{MaxGramTree, MaxGramTreeConfig, Weights};
pub use ngram_table::{
    Continuations, NgramLimits, NgramMetadata, NgramRows, NgramTable, import_json,
};
pub use prompt_lookup::{PromptLookup, PromptLookupConfig};
pub use provenance::{Provenance, Source};

/// For [`drafter_kinds!`].
#[doc(hidden)]
pub use serde;
