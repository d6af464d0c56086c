//! A draft on its way.

use cascade_core::{Draft, NodeId, Proposed, TokenId};

/// A draft that grows at its leading path: the one along which each piece continues the piece before.
#[derive(Default)]
pub(crate) struct Growing {
    pub(crate) draft: Draft,
    /// The last node of the leading path; `None` where nothing has been drafted yet.
    pub(crate) lead: Option<NodeId>,
    /// Whether the leading path ends the text.
    pub(crate) ended: bool,
}

impl Growing {
    /// Tokens on the leading path.
    pub(crate) fn depth(&self) -> usize {
        self.depth_after(self.lead)
    }

    /// Depth of what follows a node, or of what comes first.
    pub(crate) fn depth_after(&self, node: Option<NodeId>) -> usize {
        node.map_or(0, |node| self.draft.tree().depth(node) + 1)
    }

    /// The tokens of the leading path.
    pub(crate) fn lead_tokens(&self) -> Vec<TokenId> {
        self.draft.tree().path_tokens(self.lead)
    }

    /// Goes back to the beginning of the draft: what comes next is drafted beside what is there.
    pub(crate) fn restart(&mut self) {
        self.lead = None;
        self.ended = false;
    }

    /// Hangs a chunk under the leading node; the leading path goes on along that of the chunk.
    pub(crate) fn append(&mut self, chunk: Self) {
        let places = hang(&mut self.draft, self.lead, &chunk.draft);
        if let Some(lead) = chunk.lead {
            self.lead = Some(places[lead]);
        }
        self.ended = chunk.ended;
    }

    /// The draft with another one hung under the leading node.
    pub(crate) fn with(&self, draft: &Draft) -> Draft {
        let mut whole = self.draft.clone();
        hang(&mut whole, self.lead, draft);
        whole
    }

    /// Leads along the first children.
    pub(crate) fn follow_first_children(&mut self, eos: &[TokenId]) {
        let tree = self.draft.tree();
        while let Some(child) = tree.children(self.lead).next() {
            self.lead = Some(child);
        }
        self.ended = self
            .lead
            .is_some_and(|lead| eos.contains(&tree.token(lead)));
    }

    /// Nodes without children, but the leading one.
    pub(crate) fn other_leaves(&self) -> Vec<NodeId> {
        let tree = self.draft.tree();
        (0..tree.len())
            .filter(|&node| Some(node) != self.lead)
            .filter(|&node| tree.children(Some(node)).next().is_none())
            .collect()
    }
}

/// Hangs every draw of `draft` under `parent`, merging equal tokens. Returns where each of its nodes went.
fn hang(whole: &mut Draft, parent: Option<NodeId>, draft: &Draft) -> Vec<NodeId> {
    let tree = draft.tree();
    let mut places = vec![0; draft.len()];
    for draw in draft.candidates() {
        let under = match tree.parent(draw.node) {
            None => parent,
            Some(above) => Some(places[above]),
        };
        let proposed = Proposed {
            proposal: draw.proposal.clone(),
            proposer: draft.proposer(draw.node),
        };
        places[draw.node] = whole.push(tree.token(draw.node), under, proposed);
    }
    places
}
