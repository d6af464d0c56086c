//! Statistical drafters and their tables.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod automaton;
mod bigram;
mod branches;
mod common;
mod kinds;
mod max_gram;
mod max_gram_tree;
mod ngram_table;
mod shipped_tables;
