//! The tree of the most probable continuations.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cascade_core::{Advice, AdvisedRow, Budget, NodeId, ScoredTree, TokenId};

use super::mixture::{Candidates, Mixture, Sources};
use super::weights::Weights;

/// Evidence that adds less than this to the probability of a path of a tree of 64 nodes is left
/// out: the paths that it could lift are not drafted. The paths of smaller trees are the more
/// probable.
const CUT: f32 = 3e-4;
const CUT_NODES: usize = 64;
/// The cut of the smallest trees.
const GREATEST_CUT: f32 = 2e-3;
/// The least share of evidence that counts for the next token of a chain. The path of a chain does
/// not compete with others.
const CHAIN_CUT: f32 = 1e-3;
/// Children of a node at most.
const MOST_CHILDREN: usize = 32;

/// A node that may be appended.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    /// Probability of the path up to it.
    path: f32,
    /// The number of candidates found before: among equal paths the one found first comes first.
    found: Reverse<u32>,
    token: TokenId,
    parent: Option<NodeId>,
    /// Given its parent.
    probability: f32,
    /// What a neural drafter says after it, if it was asked.
    row: Option<AdvisedRow>,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_path = self.path.total_cmp(&other.path);
        by_path.then_with(|| self.found.cmp(&other.found))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Buffers that outlive a search.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers {
    heap: BinaryHeap<Candidate>,
    candidates: Candidates,
}

/// Builds one draft.
pub(super) struct Search<'a> {
    pub(super) sources: Sources<'a>,
    pub(super) weights: &'a Weights,
    pub(super) advice: &'a Advice,
    pub(super) budget: Budget,
    /// Paths of a smaller probability are not drafted.
    pub(super) min_probability: f32,
    pub(super) buffers: &'a mut Buffers,
}

impl Search<'_> {
    /// The nodes of the most probable paths: best first, until the budget is spent. A budget of as
    /// many nodes as depth gives a chain of the most probable tokens.
    pub(super) fn run(mut self) -> ScoredTree {
        let mut draft = ScoredTree::default();
        self.buffers.heap.clear();
        let mut found = 0;
        self.expand(&draft, None, self.advice.root(), 1.0, &mut found);
        while draft.tree().len() < self.budget.nodes {
            let Some(best) = self.buffers.heap.pop() else {
                break;
            };
            let node = draft.push_estimated(best.token, best.parent, best.probability);
            if draft.tree().depth(node) + 1 < self.budget.depth {
                self.expand(&draft, Some(node), best.row, best.path, &mut found);
            }
        }
        draft
    }

    /// Makes candidates of what may follow a node, which `row` is about.
    fn expand(
        &mut self,
        draft: &ScoredTree,
        node: Option<NodeId>,
        row: Option<AdvisedRow>,
        path: f32,
        found: &mut u32,
    ) {
        let left = self.budget.nodes - draft.tree().len();
        let (children, cut) = if self.budget.nodes <= self.budget.depth {
            (1, CHAIN_CUT)
        } else {
            (left.min(MOST_CHILDREN), self.cut() / path)
        };
        let tree = draft.tree();
        let ancestors = std::iter::successors(node, |&node| tree.parent(node));
        let text = self.sources.history.newest_first();
        let newest_first = ancestors.map(|node| tree.token(node)).chain(text);
        let advised = row.map_or(&[][..], |row| self.advice.top(row));
        let mixture = Mixture::new(self.sources, self.weights, newest_first, advised);
        let Buffers { heap, candidates } = &mut *self.buffers;
        mixture.candidates(cut, candidates);
        for (token, probability) in candidates.best(children) {
            let path = path * probability;
            if path < self.min_probability {
                break;
            }
            heap.push(Candidate {
                path,
                found: Reverse(*found),
                token,
                parent: node,
                probability,
                row: row.and_then(|row| self.advice.next(row, token)),
            });
            *found += 1;
        }
    }

    fn cut(&self) -> f32 {
        let times = CUT_NODES as f32 / self.budget.nodes as f32;
        (CUT * times.max(1.0)).min(GREATEST_CUT)
    }
}
