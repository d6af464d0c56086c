//! How a neural drafter grows a tree: the nodes of the most probable paths, of which those that pay
//! are drafted (the dynamic tree of EAGLE-2, with a price in place of a fixed size). Alone, or with
//! a statistical drafter: then by the probabilities of both.

use cascade_core::{
    Advice, Budget, Guidance, LevelId, NodeId, ScoredTree, TokenId, TokenTree, Want,
};

use super::{DraftSlot, Recursion, levels_from};
use crate::Result;
use crate::decoding::DecodingState;
use crate::draft_builder::DraftBuilder;
use crate::level::{Level, Neural, Statistical};
use crate::policy::{DraftState, ForwardCost, GrowingTree};

/// Children that a node is given at most: the tokens that the drafter thinks most of.
const CHILDREN: usize = 10;
/// The most probable tokens of a row that a partner learns.
const TOLD: usize = 16;

/// A turn of a neural drafter that [expands](crate::Expand::MostProbable) the most probable nodes.
///
/// Each forward scores nodes that the draft would have now and that were not scored yet. Without a
/// partner they are given children. A partner has grown a tree before, and grows it anew with the
/// scores. All tokens are point masses, chosen by what is known before the review: every rule is
/// exact.
pub(crate) struct TreeDrafting<'a> {
    recursion: &'a mut Recursion,
    neural: &'a mut Neural,
    slot: DraftSlot,
    context: &'a [TokenId],
    /// The tree so far.
    given: ScoredTree,
    /// Whether each row was asked for: the context's, then each node's.
    answered: Vec<bool>,
    partner: Option<Partner<'a>>,
}

/// A statistical drafter that grows the tree too, and what it was told.
struct Partner<'a> {
    level: LevelId,
    drafter: &'a mut Statistical,
    budget: Budget,
    advice: Advice,
}

impl<'a> TreeDrafting<'a> {
    pub(crate) fn new(
        recursion: &'a mut Recursion,
        neural: &'a mut Neural,
        slot: DraftSlot,
        context: &'a [TokenId],
    ) -> Self {
        Self {
            recursion,
            neural,
            slot,
            context,
            given: TokenTree::new().into(),
            answered: vec![false],
            partner: None,
        }
    }

    /// Drafts after the context. The turn's quota is the tree's depth, or with a partner, among the
    /// levels `below`, the number of forwards, at most. Nothing, if the model has no positions
    /// left.
    pub(crate) fn run(
        mut self,
        below: &'a mut [Level],
        state: &DraftState<'_>,
        decoding: &mut DecodingState,
    ) -> Result<DraftBuilder> {
        let Some(positions) = self.neural.positions(self.context, &[]) else {
            self.neural.say_unread(self.context, &[]);
            return Ok(DraftBuilder::default());
        };
        let capacity = self.slot.capacity;
        let most = Budget {
            depth: capacity.depth.min(capacity.nodes),
            nodes: capacity.nodes.saturating_sub(self.slot.reserved).max(1),
        };
        self.partner = self.find_partner(below, most, positions)?;
        let (budget, forwards) = match &self.partner {
            Some(partner) => (partner.budget, self.slot.quota),
            None => {
                // The last tokens need no row.
                let depth = self.slot.quota.min(positions.saturating_add(1));
                (Budget { depth, ..most }, usize::MAX)
            }
        };
        self.propose(decoding)?;
        let mut forward = None;
        for _ in 0..forwards {
            let open = self.open(budget, state, forward);
            if open.is_empty() {
                break;
            }
            forward = Some(self.answer(&open, decoding)?);
        }
        Ok(self.drafted(budget, state))
    }

    /// The statistical drafter that the schedule gives a turn in the tree, if it mixes
    /// probabilities.
    fn find_partner(
        &mut self,
        below: &'a mut [Level],
        most: Budget,
        positions: usize,
    ) -> Result<Option<Partner<'a>>> {
        let drafter = self.slot.drafter;
        let mut levels = drafter.0 + 1..=drafter.0 + below.len();
        let plan = &self.recursion.plan;
        if !levels.any(|level| plan.may_pair(drafter, LevelId(level))) {
            return Ok(None);
        }
        let state = DraftState {
            context: self.context.len(),
            depth: 0,
            nodes: 0,
            ended: false,
            budget: most,
            drafters: below.len(),
            texts: self.recursion.texts,
            turns: &[],
        };
        let Some(turn) = self.recursion.schedule.next(drafter, &state) else {
            return Ok(None);
        };
        let budget = Budget {
            depth: most.depth.min(turn.tokens).min(positions),
            nodes: most.nodes.min(turn.nodes),
        };
        let level = turn.drafter;
        Ok(match levels_from(below, drafter, level)?.first_mut() {
            Some(Level::Statistical(drafter)) if drafter.takes_advice() => Some(Partner {
                level,
                drafter,
                budget,
                advice: Advice::default(),
            }),
            _ => None,
        })
    }

    /// Has the partner grow the tree anew, with all that it was told.
    fn propose(&mut self, decoding: &mut DecodingState) -> Result<()> {
        if let Some(partner) = &mut self.partner {
            let mut guidance = Guidance::new(decoding.choice());
            if partner.advice.root().is_some() {
                guidance = guidance.with_advice(&partner.advice);
            }
            let settings = &self.recursion.settings;
            let budget = partner.budget;
            self.given = partner
                .drafter
                .propose(self.context, budget, &mut guidance, settings)?;
            self.recursion.learning += partner.drafter.take_learning();
            self.answered = partner.advice.answered(self.given.tree());
        }
        Ok(())
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
        let tree = self.given.tree();
        let proposer = |node| match &self.partner {
            Some(partner) if !self.answered[TokenTree::row(tree.parent(node))] => partner.level,
            _ => drafter,
        };
        self.recursion.fitting(&self.given, budget, keep, proposer)
    }

    /// Whether each node is among the `count` most probable ones. Parents are whenever children
    /// are.
    fn best(&self, count: usize) -> Vec<bool> {
        let tree = self.given.tree();
        let mut paths: Vec<f32> = Vec::with_capacity(tree.len());
        for node in 0..tree.len() {
            let before = tree.parent(node).map_or(1.0, |parent| paths[parent]);
            paths.push(before * self.given.probability(node).unwrap_or(1.0));
        }
        let mut order: Vec<NodeId> = (0..paths.len()).collect();
        // No child is more probable than its parent, which was pushed earlier.
        order.sort_by(|&a, &b| paths[b].total_cmp(&paths[a]));
        let mut best = vec![false; order.len()];
        order
            .into_iter()
            .take(count)
            .for_each(|node| best[node] = true);
        best
    }

    /// The rows of the next forward: of the nodes that the draft would have, those that can have
    /// children and that the schedule wants to have some.
    fn open(
        &mut self,
        budget: Budget,
        state: &DraftState<'_>,
        forward: Option<ForwardCost>,
    ) -> Vec<Option<NodeId>> {
        if self.partner.is_none() && forward.is_none() {
            // The schedule has decided on the first one.
            return vec![None];
        }
        let growing = GrowingTree {
            reviewer: self.slot.reviewer,
            drafter: self.slot.drafter,
            proposed: &self.given,
            answered: &self.answered,
            forward,
        };
        let wanted = self.recursion.schedule.expand(state, &growing);
        let tree = self.given.tree();
        let best = self.best(budget.nodes);
        let has_room = |node: NodeId| {
            let ends = self.recursion.settings.is_eos(tree.token(node));
            best[node] && tree.depth(node) + 1 < budget.depth && !ends
        };
        let is_open = |at: &Option<NodeId>| {
            let row = TokenTree::row(*at);
            let wanted = wanted
                .as_ref()
                .is_none_or(|wanted| wanted.get(row) == Some(&true));
            wanted && !self.answered[row] && at.is_none_or(has_room)
        };
        let nodes = (0..tree.len()).map(Some);
        std::iter::once(None).chain(nodes).filter(is_open).collect()
    }

    /// Scores nodes, or the context, in one forward, and grows the tree by what that says.
    fn answer(
        &mut self,
        nodes: &[Option<NodeId>],
        decoding: &mut DecodingState,
    ) -> Result<ForwardCost> {
        let (scored, places) = self.with_ancestors(nodes);
        let most = if self.partner.is_some() {
            TOLD
        } else {
            CHILDREN
        };
        let known = self.neural.info().max_top.unwrap_or(most);
        let width = most.min(known).min(self.recursion.settings.vocab_size);
        let want = match decoding {
            DecodingState::Coupled(..) | DecodingState::Drawn(..) if self.partner.is_none() => {
                Want::LOGITS
            }
            _ => Want::ARGMAX.with_top(width),
        };
        let (scores, mut forward) = self.neural.score(self.context, &scored, want)?;
        if let Some(partner) = &mut self.partner {
            if let Some(top) = &scores.top {
                partner.advice.add(&scored, top);
            }
            self.propose(decoding)?;
        } else {
            let mut view = decoding.view(&scores, self.context.len());
            for &node in nodes {
                let at = node.and_then(|node| places[node]);
                let children = view
                    .likely(&scored, at, width)
                    .map_err(|source| self.neural.failed(source))?;
                self.give(node, children);
            }
        }
        if decoding.is_drawn() {
            // Such drafts must not depend on the clock.
            forward.time = Default::default();
        }
        Ok(forward)
    }

    /// Gives a node its children.
    fn give(&mut self, node: Option<NodeId>, children: Vec<(TokenId, f32)>) {
        self.answered[TokenTree::row(node)] = true;
        for (token, probability) in children {
            self.given.push_estimated(token, node, probability);
            self.answered.push(false);
        }
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
