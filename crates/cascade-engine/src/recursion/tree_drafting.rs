//! How a neural drafter grows a tree by itself: the nodes of the most probable paths, of which
//! those that pay are drafted (the dynamic tree of EAGLE-2, with a price in place of a fixed size).

use cascade_core::{Budget, NodeId, ScoredTree, TokenId, TokenTree, Want};

use super::{DraftSlot, Recursion};
use crate::Result;
use crate::decoding::DecodingState;
use crate::draft_builder::DraftBuilder;
use crate::level::Neural;
use crate::policy::{DraftState, ForwardCost, GrowingTree};

/// Children that a node is given at most: the tokens that the drafter thinks most of.
const CHILDREN: usize = 10;

/// A turn of a neural drafter that [expands](crate::Expand::MostProbable) the most probable nodes
/// and for which nobody drafts.
///
/// Each forward gives children to all nodes that the draft would have now and that have none yet,
/// so there are as many forwards as the tree is high, at most. All tokens are point masses, chosen
/// by what is known before the review: every rule is exact.
pub(crate) struct TreeDrafting<'a> {
    recursion: &'a mut Recursion,
    neural: &'a mut Neural,
    slot: DraftSlot,
    /// All nodes that were given, and whether each was asked for its children.
    given: ScoredTree,
    answered: Vec<bool>,
    /// Probability of the path to each.
    paths: Vec<f32>,
}

impl<'a> TreeDrafting<'a> {
    pub(crate) fn new(
        recursion: &'a mut Recursion,
        neural: &'a mut Neural,
        slot: DraftSlot,
    ) -> Self {
        Self {
            recursion,
            neural,
            slot,
            given: TokenTree::new().into(),
            answered: Vec::new(),
            paths: Vec::new(),
        }
    }

    /// Drafts after `context`, as deep as the turn's quota at most. Nothing, if the model has no
    /// positions left.
    pub(crate) fn run(
        mut self,
        context: &[TokenId],
        state: &DraftState<'_>,
        decoding: &mut DecodingState,
    ) -> Result<DraftBuilder> {
        let Some(positions) = self.neural.positions(context, &[]) else {
            self.neural.say_unread(context, &[]);
            return Ok(DraftBuilder::default());
        };
        let nodes = self.slot.capacity.nodes;
        let budget = Budget {
            // The last tokens need no row.
            depth: self.slot.quota.min(positions.saturating_add(1)),
            nodes: nodes.saturating_sub(self.slot.reserved).max(1),
        };
        let mut forward = self.answer(&[None], context, decoding)?;
        loop {
            let growing = GrowingTree {
                reviewer: self.slot.reviewer,
                drafter: self.slot.drafter,
                proposed: &self.given,
                answered: &self.answered,
                forward,
            };
            let wanted = self.recursion.schedule.expand(state, &growing);
            let open = self.open(budget, wanted.as_deref());
            if open.is_empty() {
                break;
            }
            forward = self.answer(&open, context, decoding)?;
        }
        Ok(self.drafted(budget, state))
    }

    /// What is kept of the tree, by the schedule or within the budget.
    fn drafted(self, budget: Budget, state: &DraftState<'_>) -> DraftBuilder {
        let DraftSlot {
            reviewer, drafter, ..
        } = self.slot;
        let paying = self
            .recursion
            .schedule
            .trim(reviewer, drafter, state, &self.given);
        let best = self.best(budget.nodes);
        let keep = |node: NodeId| {
            let pays = |keep: &Vec<bool>| keep.get(node).is_some_and(|&kept| kept);
            best[node] && paying.as_ref().is_none_or(pays)
        };
        self.recursion
            .fitting(&self.given, budget, keep, |_| drafter)
    }

    /// Whether each node is among the `count` most probable ones. Parents are whenever children
    /// are.
    fn best(&self, count: usize) -> Vec<bool> {
        let mut order: Vec<NodeId> = (0..self.paths.len()).collect();
        // No child is more probable than its parent, which was pushed earlier.
        order.sort_by(|&a, &b| self.paths[b].total_cmp(&self.paths[a]));
        let mut best = vec![false; order.len()];
        order
            .into_iter()
            .take(count)
            .for_each(|node| best[node] = true);
        best
    }

    /// The nodes that are to be given children: of those that the draft would have, and that are
    /// `wanted`.
    fn open(&self, budget: Budget, wanted: Option<&[bool]>) -> Vec<Option<NodeId>> {
        let tree = self.given.tree();
        let best = self.best(budget.nodes);
        let is_open = |&node: &NodeId| {
            let wanted = wanted.is_none_or(|wanted| wanted.get(node).is_some_and(|&it| it));
            let ends = self.recursion.settings.is_eos(tree.token(node));
            let room = tree.depth(node) + 1 < budget.depth;
            wanted && best[node] && !self.answered[node] && room && !ends
        };
        (0..tree.len()).filter(is_open).map(Some).collect()
    }

    /// Gives children to nodes, or to the context, in one forward.
    fn answer(
        &mut self,
        nodes: &[Option<NodeId>],
        context: &[TokenId],
        decoding: &mut DecodingState,
    ) -> Result<ForwardCost> {
        let (scored, places) = self.with_ancestors(nodes);
        let told = self.neural.info().max_top.unwrap_or(CHILDREN);
        let width = CHILDREN.min(told).min(self.recursion.settings.vocab_size);
        let want = match decoding {
            DecodingState::Greedy => Want::ARGMAX.with_top(width),
            DecodingState::Coupled(..) | DecodingState::Drawn(..) => Want::LOGITS,
        };
        let (scores, forward) = self.neural.score(context, &scored, want)?;
        let mut view = decoding.view(&scores, context.len());
        for &node in nodes {
            let at = node.and_then(|node| places[node]);
            let children = view
                .likely(&scored, at, width)
                .map_err(|source| self.neural.failed(source))?;
            for (token, probability) in children {
                self.push(token, node, probability);
            }
            if let Some(node) = node {
                self.answered[node] = true;
            }
        }
        Ok(if decoding.is_drawn() {
            // Such drafts must not depend on the clock.
            ForwardCost {
                time: Default::default(),
                ..forward
            }
        } else {
            forward
        })
    }

    fn push(&mut self, token: TokenId, parent: Option<NodeId>, probability: f32) {
        let before = parent.map_or(1.0, |parent| self.paths[parent]);
        self.given.push_estimated(token, parent, probability);
        self.paths.push(before * probability);
        self.answered.push(false);
    }

    /// The smallest tree with these nodes, and the place of each node in it.
    fn with_ancestors(&self, nodes: &[Option<NodeId>]) -> (TokenTree, Vec<Option<NodeId>>) {
        let tree = self.given.tree();
        let mut needed = vec![false; tree.len()];
        for node in nodes.iter().flatten() {
            tree.ancestors(*node).for_each(|node| needed[node] = true);
        }
        let mut scored = TokenTree::new();
        let mut places = vec![None; tree.len()];
        for node in (0..tree.len()).filter(|&node| needed[node]) {
            let parent = tree.parent(node).and_then(|parent| places[parent]);
            places[node] = Some(scored.push(tree.token(node), parent));
        }
        (scored, places)
    }
}
