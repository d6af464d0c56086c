//! Which rows of a tree a neural drafter scores in one more forward.

use cascade_core::{LevelId, NodeId, TokenTree};

use super::OnlineSchedule;
use super::prices::{Kept, Tip};
use super::shadow::Shadow;
use crate::policy::{DraftState, GrowingTree};

impl OnlineSchedule {
    /// Who gave a tree its probabilities: the neural drafter that grows it, or the statistical one
    /// before the other has scored anything.
    pub(super) fn grown_by(&self, reviewer: usize, level: usize) -> usize {
        let unscored = self.reviewers[reviewer].draft.answered.is_none();
        let partner = self.levels[level].partner;
        partner.filter(|_| unscored).unwrap_or(level)
    }

    /// Finds the rows of a tree that are worth another forward: after nodes that pay themselves,
    /// where a better child than those that are there pays, if all of these are worth the forward.
    pub(super) fn worth_scoring(
        &mut self,
        state: &DraftState<'_>,
        growing: &GrowingTree<'_>,
    ) -> Vec<bool> {
        let (reviewer, level) = (growing.reviewer.0, growing.drafter.0);
        let by = self.grown_by(reviewer, level);
        let mut proposal = Shadow::new(LevelId(by), state, growing.proposed);
        let kept = self.worthwhile(reviewer, state, &proposal);
        let (rows, gain) = self.better_children(state, growing, &kept);
        let own = &self.reviewers[reviewer];
        let is_first = own.draft.answered.is_none();
        let pays = gain > 0.0 && !own.draft.trial;
        let price = self.token_price(reviewer, level);
        let goes_on = pays || is_first && self.try_out(reviewer, level, price);
        if !goes_on {
            return vec![false; rows.len()];
        }
        let own = &mut self.reviewers[reviewer];
        if is_first {
            own.draft.trial = !pays;
            // What the partner's own tree is worth shows, though it is grown anew.
            proposal.drafted.fill(false);
            own.draft.proposals.push(proposal);
            own.drafters[by].gained(kept.gain);
        }
        if pays {
            return rows;
        }
        // A trial scores the row after the context alone.
        (0..rows.len()).map(|row| row == 0).collect()
    }

    /// The rows after which a child is expected to pay that is better than those that are there,
    /// and what they gain: by one forward together, or by going on after the best of them.
    fn better_children(
        &self,
        state: &DraftState<'_>,
        growing: &GrowingTree<'_>,
        worthwhile: &Kept,
    ) -> (Vec<bool>, f64) {
        let (kept, paths) = (&worthwhile.nodes, &worthwhile.reached);
        let (reviewer, level) = (growing.reviewer.0, growing.drafter.0);
        let own = &self.reviewers[reviewer];
        let next = &own.drafters[level].next;
        let tree = growing.proposed.tree();
        let survival = own.draft.survival;
        let nodes = state.nodes + kept.iter().filter(|&&kept| kept).count();
        let row = own.gain() * own.one_more(nodes + 1);
        let behind = worth_behind(tree, kept, |node| paths[node] - row);
        let mut rows = vec![false; tree.len() + 1];
        let (mut together, mut alone, mut best) = (0.0, 0.0, 0);
        let places = std::iter::once(None).chain((0..tree.len()).map(Some));
        let unscored = |at: &Option<NodeId>| !growing.answered[TokenTree::row(*at)];
        let is_kept = |at: &Option<NodeId>| at.is_none_or(|node| kept[node]);
        for at in places.filter(unscored).filter(is_kept) {
            let place = TokenTree::row(at);
            let tip = Tip {
                survival: at.map_or(survival, |node| paths[node]),
                depth: state.depth + at.map_or(0, |node| tree.depth(node) + 1),
                nodes,
            };
            let there = tree.children(at).filter(|&child| kept[child]);
            let there: f64 = there.map(|child| paths[child]).sum();
            let better = tip.survival * next.estimate(None, tip.depth) - there - row;
            rows[place] = better > 0.0;
            together += better.max(0.0);
            let going_on = self.balance(reviewer, level, tip) - behind[place];
            if going_on > alone {
                (alone, best) = (going_on, place);
            }
        }
        rows[best] |= alone > 0.0;
        let scored = rows.iter().filter(|&&row| row).count();
        let forward = self.reviewers[level].forward_of(scored.max(1) as f64);
        let price = own.gain() * self.token_cost(reviewer, level) * forward;
        (rows, (together - price).max(alone))
    }
}

/// What the kept nodes behind each row of a tree are worth together.
fn worth_behind(tree: &TokenTree, kept: &[bool], worth: impl Fn(NodeId) -> f64) -> Vec<f64> {
    let mut behind = vec![0.0; tree.len() + 1];
    for node in (0..tree.len()).rev().filter(|&node| kept[node]) {
        let all = worth(node) + behind[TokenTree::row(Some(node))];
        behind[TokenTree::row(tree.parent(node))] += all;
    }
    behind
}
