//! The outcome of a review.

use cascade_core::{Draft, NodeId, Proposal, TokenId};

/// What a reviewer keeps of a draft, and what it says next.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The kept nodes: a path downwards from where the review began.
    pub kept: Vec<NodeId>,
    /// The reviewer's own token after the last kept node, or where the review began if none is
    /// kept.
    pub next: TokenId,
    /// What each kept token, and `next` after them, was emitted from, for a reviewer that is itself
    /// reviewed: one more than there are kept nodes. A strict review emits from the reviewer's own
    /// distribution; a lenient one does not.
    pub emitted: Vec<Proposal>,
}

impl Verdict {
    /// The last kept node; `None` if nothing was kept.
    pub fn last(&self) -> Option<NodeId> {
        self.kept.last().copied()
    }

    /// Walks down the draft from `start` (from the context, if `None`): `decide` gives the
    /// reviewer's token after a node and what it was emitted from, and the walk goes on as long as
    /// a child carries that token.
    ///
    /// This is all that a review over a tree is. A rule that decides exactly at one node is exact
    /// for the whole tree, since each decision is made given the tokens above it.
    pub(crate) fn walk<E>(
        draft: &Draft,
        start: Option<NodeId>,
        mut decide: impl FnMut(Option<NodeId>) -> Result<(TokenId, Proposal), E>,
    ) -> Result<Self, E> {
        let mut verdict = Self {
            kept: Vec::new(),
            next: 0,
            emitted: Vec::new(),
        };
        let mut at = start;
        loop {
            let (token, proposal) = decide(at)?;
            verdict.emitted.push(proposal);
            match draft.tree().child(at, token) {
                Some(child) => {
                    verdict.kept.push(child);
                    at = Some(child);
                }
                None => {
                    verdict.next = token;
                    return Ok(verdict);
                }
            }
        }
    }
}
