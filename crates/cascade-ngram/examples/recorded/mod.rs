//! Recorded outputs, in the form that `tests/fixtures/make_vicuna_spec_bench.py` writes.

#![allow(dead_code)] // No example uses all of it.

use std::{error::Error, fmt, fs};

use cascade_core::{NodeId, TokenTree};
use serde_json::Value;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// An output behind all tokens before it, which are its prompt.
pub(crate) struct Output {
    pub(crate) category: String,
    pub(crate) tokens: Vec<u32>,
    pub(crate) start: usize,
}

/// Reads all outputs of a file.
pub(crate) fn read(file: &str) -> Result<Vec<Output>> {
    let mut outputs = Vec::new();
    for line in fs::read_to_string(file)?.lines() {
        let value: Value = serde_json::from_str(line)?;
        let tokens: Vec<u32> = serde_json::from_value(value["tokens"].clone())?;
        let ranges: Vec<(usize, usize)> = serde_json::from_value(value["outputs"].clone())?;
        let category = value["category"].as_str().unwrap_or_default();
        outputs.extend(ranges.into_iter().map(|(start, end)| Output {
            category: category.to_owned(),
            tokens: tokens[..end].to_vec(),
            start,
        }));
    }
    Ok(outputs)
}

/// The longest path from the root that begins `said`. Siblings differ, so there is one path to
/// follow.
pub(crate) fn accepted(draft: &TokenTree, said: &[u32]) -> Vec<NodeId> {
    let mut path: Vec<NodeId> = Vec::new();
    for &token in said {
        match draft.child(path.last().copied(), token) {
            Some(node) => path.push(node),
            None => break,
        }
    }
    path
}

/// What drafts have given.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) emitted: usize,
    pub(crate) forwards: usize,
    pub(crate) drafted: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.emitted += other.emitted;
        self.forwards += other.forwards;
        self.drafted += other.drafted;
    }

    /// Replays an output: what `draft` proposes at each place is compared with what was said, and
    /// the common path and one token more are emitted.
    pub(crate) fn of(output: &Output, mut draft: impl FnMut(&Output, usize) -> TokenTree) -> Self {
        let mut tally = Self::default();
        let mut at = output.start;
        while at < output.tokens.len() {
            let draft = draft(output, at);
            let accepted = accepted(&draft, &output.tokens[at..]).len();
            at = output.tokens.len().min(at + accepted + 1);
            tally.forwards += 1;
            tally.drafted += draft.len();
        }
        tally.emitted = output.tokens.len() - output.start;
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_forward = |count: usize| count as f64 / self.forwards as f64;
        write!(
            f,
            "{:>6} tokens / {:>6} forwards = {:.3}  ({:.1} drafted each)",
            self.emitted,
            self.forwards,
            per_forward(self.emitted),
            per_forward(self.drafted)
        )
    }
}
