//! The outcome of a review.

use cascade_core::{Draft, NodeId, Proposal, TokenId};

/// What a reviewer accepts of a draft, and its own next token.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The accepted nodes: a path downwards from where the review began.
    pub kept: Vec<NodeId>,
    /// The reviewer's own token after the last accepted node, or where the review began if none was
    /// accepted.
    pub next: TokenId,
    /// The proposals from which the accepted tokens and finally `next` were emitted, for a reviewer
    /// whose draft is reviewed in turn: one more than accepted nodes. A strict review emits from
    /// the reviewer's own distribution; a lenient one does not.
    pub emitted: Vec<Proposal>,
}

impl Verdict {
    /// Walks down the draft from `start` (from the context, if `None`): `decide` returns the
    /// reviewer's token after a node and the proposal it was emitted from, and the walk continues
    /// as long as a child carries that token.
    ///
    /// Every review over a tree is such a walk. A rule that is exact at one node is exact for the
    /// whole tree, since each decision is conditioned on the tokens above it.
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
