//! Drafts: token trees with the origin of each token.

use std::sync::Arc;

use crate::{Distribution, NodeId, TokenId, TokenTree};

/// A model of the cascade: 0 is the target, `j + 1` is drafter `j`, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LevelId(pub usize);

impl LevelId {
    /// The model whose output is emitted.
    pub const TARGET: Self = Self(0);

    /// The level of drafter `j`.
    pub const fn drafter(j: usize) -> Self {
        Self(j + 1)
    }
}

/// The distribution a drafted token was drawn from, conditioned on everything drafted before it.
///
/// "Before" refers to the order of verification: the ancestors of a draw, and its earlier siblings.
/// A proposal must be the distribution of the draw conditioned on those, or the review is not
/// exact.
#[derive(Clone, Debug, PartialEq)]
pub enum Proposal {
    /// Determined by what came before, without a model's probability: Max-Gram, a bigram table,
    /// prompt lookup, the top-k tokens of a row.
    PointMass,
    /// The deterministic choice of a neural drafter, which gave it this probability (q(x) in
    /// Cascade Speculative Drafting, §3.1): a point mass too, but a lenient greedy review compares
    /// this probability with the reviewer's. After a review it is the reviewer's probability, not
    /// that of the level below.
    Pick {
        /// The drafter's probability of the token, in `[0, 1]`.
        probability: f32,
    },
    /// Sampled from this distribution.
    Sampled(Arc<Distribution>),
}

impl Proposal {
    /// The probability that the drafter gave the token; `None` if it has none.
    pub fn probability(&self, token: TokenId) -> Option<f32> {
        match self {
            Self::PointMass => None,
            Self::Pick { probability } => Some(*probability),
            Self::Sampled(q) => Some(q.probability(token) as f32),
        }
    }
}

/// Where a drafted token came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposed {
    /// What the token was drawn from, from the next reviewer's point of view.
    pub proposal: Proposal,
    /// The level that proposed the token first. Reviews by larger models do not change it.
    pub proposer: LevelId,
}

/// One draw of a token: the node that carries it, and what it was drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// What it was drawn from.
    pub proposal: Proposal,
}

/// A token tree that records, for each node, the draws that produced it and who proposed it first.
///
/// Siblings carry different tokens: a token that is drawn again adds a draw to the existing node.
/// All draws are recorded, since an exact review must consider each of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    tree: TokenTree,
    proposers: Vec<LevelId>,
    /// The draws, in the order in which they were pushed.
    draws: Vec<Candidate>,
}

impl Draft {
    /// The empty draft.
    pub const fn new() -> Self {
        Self {
            tree: TokenTree::new(),
            proposers: Vec::new(),
            draws: Vec::new(),
        }
    }

    /// Adds a draw of `token` after `parent` (after the context, if `None`), and returns the node
    /// that carries it: a new one, unless a child of `parent` already carries the token.
    ///
    /// # Panics
    /// If `parent` is not a node of this draft.
    pub fn push(&mut self, token: TokenId, parent: Option<NodeId>, proposed: Proposed) -> NodeId {
        let node = self.tree.child(parent, token).unwrap_or_else(|| {
            self.proposers.push(proposed.proposer);
            self.tree.push(token, parent)
        });
        self.draws.push(Candidate {
            node,
            proposal: proposed.proposal,
        });
        node
    }

    /// Moves every draw of `other` under `parent` (after the context, if `None`), merging equal
    /// siblings. Returns the new index of each node of `other`.
    ///
    /// # Panics
    /// If `parent` is not a node of this draft.
    pub fn graft(&mut self, parent: Option<NodeId>, other: Self) -> Vec<NodeId> {
        let Self {
            tree,
            proposers,
            draws,
        } = other;
        let mut places = vec![0; tree.len()];
        for Candidate { node, proposal } in draws {
            let under = tree
                .parent(node)
                .map_or(parent, |above| Some(places[above]));
            let proposer = proposers[node];
            let proposed = Proposed { proposal, proposer };
            places[node] = self.push(tree.token(node), under, proposed);
        }
        places
    }

    /// The tokens and their shape.
    pub fn tree(&self) -> &TokenTree {
        &self.tree
    }

    /// The level that proposed a node first.
    ///
    /// # Panics
    /// If `node` is not a node of this draft.
    pub fn proposer(&self, node: NodeId) -> LevelId {
        self.proposers[node]
    }

    /// All draws, in the order in which they were pushed, which for siblings is the order in which
    /// a review must consider them.
    pub fn candidates(&self) -> &[Candidate] {
        &self.draws
    }

    /// The draws of the children of `parent` (of the context, if `None`), in order.
    pub fn sibling_candidates(&self, parent: Option<NodeId>) -> impl Iterator<Item = &Candidate> {
        self.draws
            .iter()
            .filter(move |draw| self.tree.parent(draw.node) == parent)
    }

    /// The number of times that a node was drawn.
    pub fn multiplicity(&self, node: NodeId) -> usize {
        self.draws.iter().filter(|draw| draw.node == node).count()
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_drawn_again_is_one_node_with_two_draws() {
        let point = |level| Proposed {
            proposal: Proposal::PointMass,
            proposer: LevelId::drafter(level),
        };
        let mut draft = Draft::new();
        let a = draft.push(7, None, point(0));
        let b = draft.push(8, None, point(0));
        let under = draft.push(7, Some(a), point(1));
        assert_eq!(draft.push(7, None, point(1)), a);
        assert_eq!(
            (
                draft.len(),
                draft.multiplicity(a),
                draft.multiplicity(under)
            ),
            (3, 2, 1)
        );
        assert_eq!(draft.proposer(a), LevelId::drafter(0), "the first one");
        let roots: Vec<NodeId> = draft
            .sibling_candidates(None)
            .map(|draw| draw.node)
            .collect();
        assert_eq!(roots, [a, b, a]);
        assert_eq!(draft.sibling_candidates(Some(b)).count(), 0);
    }
}
