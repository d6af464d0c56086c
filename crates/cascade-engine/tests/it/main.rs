//! The engine, with models whose outputs are known.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod bookkeeping;
mod classifier;
mod common;
mod coupled;
mod drawing;
mod generation;
mod head;
mod hostile;
mod max_gram_tree;
mod online;
mod policy;
mod recursion;
mod replays;
mod reports;
mod sampling;
mod siblings;
mod states;
mod stop_rules;
mod trees_alone;
mod vocabularies;
