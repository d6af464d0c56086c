//! The outcome of a review.

use cascade_core::{NodeId, TokenId};

/// What a reviewer keeps of a draft, and what it says next.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The kept nodes: a path from the context downwards.
    pub kept: Vec<NodeId>,
    /// The reviewer's own token after the last kept node, or after the context if none is kept.
    pub next: TokenId,
}

impl Verdict {
    /// The last kept node; `None` if the whole draft was turned down.
    pub fn last(&self) -> Option<NodeId> {
        self.kept.last().copied()
    }
}
