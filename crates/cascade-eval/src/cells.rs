//! The target's distribution over short texts, enumerated for the probable ones.

use std::collections::HashMap;
use std::sync::Arc;

use cascade_core::{Distribution, Prompt, Sampling, Scorer, TokenId, TokenTree, Want};

use crate::{Error, ErrorKind, Result};

/// Minimum expected samples of a cell; below it the chi-square test is not valid.
const EXPECTED: f64 = 5.0;
/// A prefix with fewer expected samples than this is not expanded.
const WORTH_EXPANDING: f64 = 50.0;
/// Prefixes that are expanded in one forward.
const BATCH: usize = 64;

/// A partition of all texts of a length into cells whose probabilities are known.
///
/// Prefixes that are probable enough are expanded by the target's distribution after them. Tokens
/// with fewer than five expected samples share one cell, and the smallest of these cells are
/// merged.
#[derive(Clone, Debug)]
pub struct Cells {
    length: usize,
    eos: Vec<TokenId>,
    nodes: Vec<Node>,
    /// The final cell of each original cell, after small ones were merged.
    merged: Vec<usize>,
    probabilities: Vec<f64>,
    forwards: usize,
}

/// A prefix that was expanded.
#[derive(Clone, Debug)]
struct Node {
    distribution: Arc<Distribution>,
    next: HashMap<TokenId, Next>,
    /// The cell of all other tokens.
    rest: usize,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Node(usize),
    Cell(usize),
}

/// A prefix that is not yet expanded.
struct Open {
    tokens: Vec<TokenId>,
    probability: f64,
    /// The node and token that lead to it; `None` for the empty prefix.
    from: Option<(usize, TokenId)>,
}

impl Open {
    /// The prefix with a token more, which leads to it from a node.
    fn then(&self, node: usize, token: TokenId, probability: f64) -> Self {
        let tokens = self.tokens.iter().copied();
        Self {
            tokens: tokens.chain([token]).collect(),
            probability,
            from: Some((node, token)),
        }
    }
}

impl Cells {
    /// Enumerates the texts of `length` tokens that `target` generates after `prompt` with
    /// `sampling`, as finely as `samples` samples allow. A token of `eos` ends a text.
    ///
    /// # Errors
    /// If `length` is 0; errors of the target.
    pub fn new(
        target: &mut dyn Scorer,
        prompt: &Prompt,
        sampling: &Sampling,
        eos: &[TokenId],
        length: usize,
        samples: u64,
    ) -> Result<Self> {
        if length == 0 {
            let message = "texts of 0 tokens are all equal; compare 1 or more";
            return Err(Error::new(ErrorKind::Unusable, message));
        }
        target.set_source(&prompt.source)?;
        let mut cells = Self {
            length,
            eos: eos.to_vec(),
            nodes: Vec::new(),
            merged: Vec::new(),
            probabilities: Vec::new(),
            forwards: 0,
        };
        let mut open = vec![Open {
            tokens: Vec::new(),
            probability: 1.0,
            from: None,
        }];
        while !open.is_empty() {
            let batch = open.split_off(open.len().saturating_sub(BATCH));
            for (beginning, row) in cells.rows(target, prompt, sampling, batch)? {
                cells.expand(beginning, row, samples as f64, &mut open);
            }
        }
        cells.merge_small(samples as f64);
        Ok(cells)
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.probabilities.len()
    }

    /// Whether there is no cell. There always is one.
    pub fn is_empty(&self) -> bool {
        self.probabilities.is_empty()
    }

    /// Probability of each cell; they sum to 1.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// Number of target forwards that the enumeration took.
    pub fn forwards(&self) -> usize {
        self.forwards
    }

    /// The cell of a text; `None` if its probability is 0, or if it is shorter than the length
    /// without ending in EOS. Tokens beyond the length are ignored.
    pub fn cell(&self, text: &[TokenId]) -> Option<usize> {
        let mut node = 0;
        for &token in text.iter().take(self.length) {
            let at = &self.nodes[node];
            if at.distribution.probability(token) == 0.0 {
                return None;
            }
            match at.next.get(&token) {
                Some(Next::Node(next)) => node = *next,
                Some(Next::Cell(cell)) => return Some(self.merged[*cell]),
                None => return Some(self.merged[at.rest]),
            }
        }
        None
    }

    /// The distributions after some prefixes, computed in one forward.
    fn rows(
        &mut self,
        target: &mut dyn Scorer,
        prompt: &Prompt,
        sampling: &Sampling,
        batch: Vec<Open>,
    ) -> cascade_core::Result<Vec<(Open, Arc<Distribution>)>> {
        let mut tree = TokenTree::new();
        let ends: Vec<_> = batch
            .iter()
            .map(|open| insert(&mut tree, &open.tokens))
            .collect();
        let scores = target.score(&prompt.context, &tree, Want::LOGITS)?;
        self.forwards += 1;
        let logits = scores.logits.as_ref();
        let mut rows = Vec::with_capacity(batch.len());
        for (open, end) in batch.into_iter().zip(ends) {
            if let Some(logits) = logits {
                let row = sampling.distribution(logits.row(TokenTree::row(end)))?;
                rows.push((open, Arc::new(row)));
            }
        }
        Ok(rows)
    }

    /// Turns a prefix into a node: each probable token becomes a cell or an open prefix, the others
    /// share one cell.
    fn expand(
        &mut self,
        beginning: Open,
        distribution: Arc<Distribution>,
        samples: f64,
        open: &mut Vec<Open>,
    ) {
        let node = self.nodes.len();
        if let Some((parent, token)) = beginning.from {
            self.nodes[parent].next.insert(token, Next::Node(node));
        }
        let mut next = HashMap::new();
        let mut rest = 0.0;
        distribution.for_each(|token, p| {
            let probability = beginning.probability * p;
            let expected = probability * samples;
            if expected < EXPECTED {
                rest += probability;
                return;
            }
            let ends = self.eos.contains(&token) || beginning.tokens.len() + 1 == self.length;
            if ends || expected < WORTH_EXPANDING {
                next.insert(token, Next::Cell(self.probabilities.len()));
                self.probabilities.push(probability);
            } else {
                open.push(beginning.then(node, token, probability));
            }
        });
        self.probabilities.push(rest);
        self.nodes.push(Node {
            distribution,
            next,
            rest: self.probabilities.len() - 1,
        });
    }

    /// Merges cells, smallest first, until each expects enough samples.
    fn merge_small(&mut self, samples: f64) {
        let fine = std::mem::take(&mut self.probabilities);
        let mut order: Vec<usize> = (0..fine.len()).collect();
        order.sort_by(|&a, &b| fine[a].total_cmp(&fine[b]));
        self.merged = vec![0; fine.len()];
        for cell in order {
            match self.probabilities.last_mut() {
                Some(last) if *last * samples < EXPECTED => *last += fine[cell],
                _ => self.probabilities.push(fine[cell]),
            }
            self.merged[cell] = self.probabilities.len() - 1;
        }
    }
}

/// Adds a path to a tree and returns its last node.
fn insert(tree: &mut TokenTree, tokens: &[TokenId]) -> Option<usize> {
    let mut at = None;
    for &token in tokens {
        at = Some(
            tree.child(at, token)
                .unwrap_or_else(|| tree.push(token, at)),
        );
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::Architecture;
    use cascade_core::toy::ToyScorer;

    const LENGTH: usize = 3;

    fn cells(samples: u64, eos: &[TokenId]) -> Cells {
        let mut target = ToyScorer::target("target", 6, 3);
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2]);
        let sampling = Sampling::new(1.5)
            .and_then(|s| s.with_top_k(5))
            .expect("valid");
        Cells::new(&mut target, &prompt, &sampling, eos, LENGTH, samples)
            .expect("a toy does not fail")
    }

    /// Every text with its probability.
    fn texts(eos: &[TokenId]) -> Vec<(Vec<TokenId>, f64)> {
        let mut target = ToyScorer::target("target", 6, 3);
        let sampling = Sampling::new(1.5)
            .and_then(|s| s.with_top_k(5))
            .expect("valid");
        let mut open = vec![(Vec::new(), 1.0)];
        let mut all = Vec::new();
        while let Some((text, probability)) = open.pop() {
            if text.len() == LENGTH || text.last().is_some_and(|t| eos.contains(t)) {
                all.push((text, probability));
                continue;
            }
            let context = [&[1, 2], &text[..]].concat();
            let scores = target.score(&context, &TokenTree::new(), Want::LOGITS);
            let logits = scores.expect("a toy does not fail").logits.expect("wanted");
            let row = sampling.distribution(logits.row(0)).expect("proper");
            row.for_each(|token, p| open.push(([&text[..], &[token]].concat(), probability * p)));
        }
        all
    }

    #[test]
    fn cells_are_a_partition_with_the_right_probabilities() {
        for samples in [10, 300, 100_000] {
            for eos in [&[][..], &[0][..]] {
                let cells = cells(samples, eos);
                let mut sums = vec![0.0; cells.len()];
                for (text, probability) in texts(eos) {
                    sums[cells.cell(&text).expect("possible")] += probability;
                }
                for (sum, probability) in sums.iter().zip(cells.probabilities()) {
                    assert!((sum - probability).abs() < 1e-9, "{sum} {probability}");
                }
                let total: f64 = cells.probabilities().iter().sum();
                assert!((total - 1.0).abs() < 1e-9);
            }
        }
        assert!(cells(100_000, &[]).len() > cells(300, &[]).len());
        assert!(cells(300, &[]).forwards() < 10);
    }

    #[test]
    fn a_text_that_the_target_never_generates_has_no_cell() {
        let cells = cells(1000, &[]);
        let given: Vec<TokenId> = texts(&[]).iter().map(|(text, _)| text[0]).collect();
        let never = (0..6)
            .find(|token| !given.contains(token))
            .expect("top-k leaves one out");
        assert_eq!(cells.cell(&[never, 0, 0]), None);
        let (whole, _) = &texts(&[])[0];
        assert!(cells.cell(whole).is_some());
    }
}
