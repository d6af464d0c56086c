//! What a statistical drafter proposed, whether it was drafted or not.

use cascade_core::{LevelId, NodeId, ScoredTree, TokenId, TokenTree};

use crate::policy::acceptance::Acceptance;
use crate::policy::{DraftState, Outcome};

/// A proposal for one place of a draft. What it was worth shows when the text goes on, also of the
/// nodes that were not drafted.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    pub(super) drafter: LevelId,
    /// Turns before it, whose main path it continues.
    turns: usize,
    /// Tokens before it in the draft.
    before: usize,
    proposed: ScoredTree,
    /// Whether each node was drafted; all, until something else is said.
    pub(super) drafted: Vec<bool>,
    /// The rows that a neural drafter scored, if others gave children to the rest.
    pub(super) answered: Option<Vec<bool>>,
}

impl Shadow {
    /// A proposal for the tip of a draft.
    pub(super) fn new(drafter: LevelId, state: &DraftState<'_>, proposed: &ScoredTree) -> Self {
        Self {
            drafter,
            turns: state.turns.len(),
            before: state.depth,
            drafted: vec![true; proposed.tree().len()],
            answered: None,
            proposed: proposed.clone(),
        }
    }

    /// The probability of each node that it is kept, and all before it, if the tip is with this
    /// probability.
    pub(super) fn reached(&self, tip: f64, stated: &Acceptance) -> Vec<f64> {
        let tree = self.proposed.tree();
        let mut paths: Vec<f64> = Vec::with_capacity(tree.len());
        for node in 0..tree.len() {
            let before = tree.parent(node).map_or(tip, |parent| paths[parent]);
            let own = stated.estimate(self.proposed.probability(node), tree.depth(node));
            paths.push(before * own);
        }
        paths
    }

    /// The main path if these nodes are kept: first children.
    pub(super) fn kept_path(&self, keep: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let tree = self.proposed.tree();
        let first = |node: Option<NodeId>| tree.children(node).find(|&child| keep(child));
        std::iter::successors(first(None), |&node| first(Some(node))).collect()
    }

    /// Calls `learn` with the estimate and the depth of each node whose parent is in the text, and
    /// whether it is too.
    pub(super) fn compare(
        &self,
        outcome: &Outcome<'_>,
        mut learn: impl FnMut(Option<f32>, usize, bool),
    ) {
        let tree = self.proposed.tree();
        for (depth, at, token) in self.places(outcome) {
            for node in tree.children(at) {
                let said = tree.token(node) == token;
                learn(self.proposed.probability(node), depth, said);
            }
        }
    }

    /// Calls `learn` with the depth in the draft of each place that the text reached, and whether
    /// it stayed there within what was drafted, or would have within the first child alone.
    pub(super) fn compare_places(&self, outcome: &Outcome<'_>, mut learn: impl FnMut(usize, bool)) {
        let tree = self.proposed.tree();
        for (depth, at, token) in self.places(outcome) {
            let answered = self.answered.as_ref();
            let scored = answered.is_none_or(|rows| rows.get(TokenTree::row(at)) == Some(&true));
            let Some(first) = tree.children(at).next().filter(|_| scored) else {
                return;
            };
            let said = tree.child(at, token);
            let stayed = said.is_some_and(|node| node == first || self.drafted[node]);
            learn(self.before + depth, stayed);
            if !stayed {
                return;
            }
        }
    }

    /// The places of the tree that the text reached, with their depths and the text's next tokens.
    fn places(&self, outcome: &Outcome<'_>) -> Vec<(usize, Option<NodeId>, TokenId)> {
        let tree = self.proposed.tree();
        let (mut places, mut at) = (Vec::new(), None);
        for (depth, token) in self.continuation(outcome).into_iter().flatten().enumerate() {
            places.push((depth, at, token));
            at = tree.child(at, token);
            if at.is_none() {
                break;
            }
        }
        places
    }

    /// What followed in the text; `None` if the text went elsewhere before.
    fn continuation(&self, outcome: &Outcome<'_>) -> Option<Vec<TokenId>> {
        let before = outcome.turns.iter().take(self.turns).rev();
        let known = match before.filter_map(|turn| turn.path.last()).next() {
            None => 0,
            Some(tip) => 1 + outcome.accepted.iter().position(|node| node == tip)?,
        };
        let tree = outcome.draft.tree();
        let tokens = outcome.accepted[known..]
            .iter()
            .map(|&node| tree.token(node));
        Some(tokens.chain([outcome.next]).collect())
    }
}
