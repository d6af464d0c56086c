//! Drafts: token trees that know where each token came from.

use crate::{NodeId, TokenId, TokenTree};

/// A model of the cascade: 0 is the target, `j + 1` is drafter `j`, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LevelId(pub usize);

impl LevelId {
    /// The model whose answers are kept.
    pub const TARGET: Self = Self(0);

    /// The level of drafter `j`.
    pub const fn drafter(j: usize) -> Self {
        Self(j + 1)
    }
}

/// What a drafted token was drawn from. Both kinds are point masses, so a review that only compares tokens is exact for
/// them; they differ in the probability that a lenient review compares with its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Proposal {
    /// Fixed by the tokens before it, without a model's probability: Max-Gram, a bigram table, prompt lookup.
    PointMass,
    /// The deterministic choice of a neural drafter, which gave it this probability (q(x) in the paper, §3.1). After a
    /// review, this is the reviewer's probability, not the one of the level below.
    Pick {
        /// The drafter's probability of the token, in `[0, 1]`.
        probability: f32,
    },
}

/// Where a drafted token came from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposed {
    /// What the token was drawn from, as far as the next reviewer is concerned.
    pub proposal: Proposal,
    /// The level that proposed the token first. Reviews by the levels above keep it.
    pub proposer: LevelId,
}

/// A token tree in which each node carries its [`Proposed`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    tree: TokenTree,
    proposed: Vec<Proposed>,
}

impl Draft {
    /// The empty draft.
    pub const fn new() -> Self {
        Self {
            tree: TokenTree::new(),
            proposed: Vec::new(),
        }
    }

    /// Adds a node and returns its index.
    ///
    /// # Panics
    /// If `parent` is not a node of this draft.
    pub fn push(&mut self, token: TokenId, parent: Option<NodeId>, proposed: Proposed) -> NodeId {
        self.proposed.push(proposed);
        self.tree.push(token, parent)
    }

    /// The tokens and their shape.
    pub fn tree(&self) -> &TokenTree {
        &self.tree
    }

    /// Where a node came from.
    ///
    /// # Panics
    /// If `node` is not a node of this draft.
    pub fn proposed(&self, node: NodeId) -> Proposed {
        self.proposed[node]
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
