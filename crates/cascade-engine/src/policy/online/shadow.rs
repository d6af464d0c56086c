//! What a statistical drafter proposed, whether it was drafted or not.

use cascade_core::{LevelId, NodeId, ScoredTree, TokenId, TokenTree};

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

    /// The probability of the path to each node, by an estimate for each node.
    pub(super) fn path_probabilities(
        &self,
        estimate: impl Fn(Option<f32>, usize) -> f64,
    ) -> Vec<f64> {
        let tree = self.proposed.tree();
        let mut paths: Vec<f64> = Vec::with_capacity(tree.len());
        for node in 0..tree.len() {
            let before = tree.parent(node).map_or(1.0, |parent| paths[parent]);
            let own = estimate(self.proposed.probability(node), tree.depth(node));
            paths.push(before * own);
        }
        paths
    }

    /// The main chain: first children.
    pub(super) fn first_children(&self) -> Vec<NodeId> {
        let tree = self.proposed.tree();
        let first = tree.children(None).next();
        std::iter::successors(first, |&node| tree.children(Some(node)).next()).collect()
    }

    /// The end of the main path if these nodes are kept.
    pub(super) fn kept_tip(&self, keep: &[bool]) -> Option<NodeId> {
        let tree = self.proposed.tree();
        let first = |node: Option<NodeId>| tree.children(node).find(|&child| keep[child]);
        std::iter::successors(first(None), |&node| first(Some(node))).last()
    }

    /// Calls `learn` with the estimate and the depth of each node whose parent is in the text, and
    /// whether it is too.
    pub(super) fn compare(
        &self,
        outcome: &Outcome<'_>,
        mut learn: impl FnMut(Option<f32>, usize, bool),
    ) {
        let Some(text) = self.continuation(outcome) else {
            return;
        };
        let tree = self.proposed.tree();
        let mut at = None;
        for (depth, token) in text.into_iter().enumerate() {
            let mut next = None;
            for node in tree.children(at) {
                let said = tree.token(node) == token;
                learn(self.proposed.probability(node), depth, said);
                next = next.or(said.then_some(node));
            }
            if next.is_none() {
                break;
            }
            at = next;
        }
    }

    /// Calls `learn` with the depth in the draft of each place that the text reached, and whether
    /// it stayed there within what was drafted, or would have within the first child alone.
    pub(super) fn compare_places(&self, outcome: &Outcome<'_>, mut learn: impl FnMut(usize, bool)) {
        let Some(text) = self.continuation(outcome) else {
            return;
        };
        let tree = self.proposed.tree();
        let mut at = None;
        for (depth, token) in text.into_iter().enumerate() {
            let row = TokenTree::row(at);
            let answered = self.answered.as_ref();
            let scored = answered.is_none_or(|rows| rows.get(row) == Some(&true));
            let Some(first) = tree.children(at).next().filter(|_| scored) else {
                return;
            };
            let said = tree.child(at, token);
            let stayed = said.filter(|&node| node == first || self.drafted[node]);
            learn(self.before + depth, stayed.is_some());
            if stayed.is_none() {
                return;
            }
            at = stayed;
        }
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
