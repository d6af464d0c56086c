//! A draft in progress.

use cascade_core::{Draft, LevelId, NodeId, Proposal, Proposed, TokenId};

use crate::policy::TurnStart;

/// A draft that grows along its main path, where each chunk continues the one before.
#[derive(Default)]
pub(crate) struct DraftBuilder {
    pub(crate) draft: Draft,
    /// The last node of the main path; `None` where nothing has been drafted yet.
    pub(crate) tip: Option<NodeId>,
    /// Whether the main path ends the text.
    pub(crate) ended: bool,
    /// Whether a stop rule ended it.
    pub(crate) stopped: bool,
}

impl DraftBuilder {
    /// Tokens on the main path.
    pub(crate) fn depth(&self) -> usize {
        self.depth_after(self.tip)
    }

    /// Depth of the children of a node, or of the first tokens.
    pub(crate) fn depth_after(&self, node: Option<NodeId>) -> usize {
        node.map_or(0, |node| self.draft.tree().depth(node) + 1)
    }

    /// The tokens of the main path.
    pub(crate) fn main_path(&self) -> Vec<TokenId> {
        self.draft.tree().path_tokens(self.tip)
    }

    /// Moves the tip to where a turn begins.
    pub(crate) fn begin(&mut self, start: TurnStart) {
        if start == TurnStart::Root {
            self.tip = None;
            self.ended = false;
        }
    }

    /// Extends the main path by one token.
    pub(crate) fn extend(&mut self, token: TokenId, proposal: Proposal, proposer: LevelId) {
        let proposed = Proposed { proposal, proposer };
        self.tip = Some(self.draft.push(token, self.tip, proposed));
    }

    /// Moves a chunk under the tip; the main path continues along the chunk's. Returns the nodes by
    /// which it grew.
    pub(crate) fn graft(&mut self, chunk: Self) -> Vec<NodeId> {
        let path = chunk.path();
        let places = self.draft.graft(self.tip, chunk.draft);
        let path: Vec<NodeId> = path.into_iter().map(|node| places[node]).collect();
        self.tip = path.last().copied().or(self.tip);
        self.ended = chunk.ended;
        path
    }

    /// Makes the first children the main path.
    pub(crate) fn follow_first_children(&mut self, eos: &[TokenId]) {
        let tree = self.draft.tree();
        while let Some(child) = tree.children(self.tip).next() {
            self.tip = Some(child);
        }
        self.ended = self.tip.is_some_and(|tip| eos.contains(&tree.token(tip)));
    }

    /// The nodes of the main path, from the top down.
    pub(crate) fn path(&self) -> Vec<NodeId> {
        let ancestors = |tip| self.draft.tree().ancestors(tip).collect();
        let mut path: Vec<NodeId> = self.tip.map(ancestors).unwrap_or_default();
        path.reverse();
        path
    }

    /// Leaves other than the tip.
    pub(crate) fn other_leaves(&self) -> Vec<NodeId> {
        let tree = self.draft.tree();
        (0..tree.len())
            .filter(|&node| Some(node) != self.tip)
            .filter(|&node| tree.children(Some(node)).next().is_none())
            .collect()
    }
}
