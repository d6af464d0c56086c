//! Who drafts next.

use cascade_core::LevelId;

use super::OnlineSchedule;
use super::prices::Tip;
use super::reviewer::LONGEST;
use crate::policy::{DraftState, Turn};

impl OnlineSchedule {
    /// Whether a statistical drafter is asked: if it pays, or if there is time to try.
    fn is_asked(&mut self, reviewer: usize, drafter: usize) -> bool {
        let price = self.question(reviewer, drafter);
        let asked = self.pays(reviewer, drafter) || self.try_out(reviewer, drafter, price);
        *self.asked[drafter].get_or_insert(false) |= asked;
        asked
    }

    /// The next statistical level that was not asked at this tip.
    pub(super) fn statistical_turn(
        &mut self,
        reviewer: usize,
        state: &DraftState<'_>,
    ) -> Option<Turn> {
        let last = state.turns.last().map(|last| last.turn.drafter.0);
        let asked = last.filter(|&last| !self.is_neural(last));
        let mut levels = asked.unwrap_or(reviewer) + 1..self.levels.len();
        let level =
            levels.find(|&level| !self.is_neural(level) && self.is_asked(reviewer, level))?;
        self.tree_of(level, self.reviewers[reviewer].drafters[level].ask, state)
    }

    /// The turn of a neural drafter that grows a tree with a statistical one that is asked: whether
    /// it scores anything shows when the other's tree is there.
    pub(super) fn tree_turn(&mut self, reviewer: usize, state: &DraftState<'_>) -> Option<Turn> {
        let mut below = reviewer + 1..self.levels.len();
        let (level, partner) =
            below.find_map(|level| Some((level, self.levels[level].partner?)))?;
        if !state.turns.is_empty() || !self.is_asked(reviewer, partner) {
            return None;
        }
        let draft = &mut self.reviewers[reviewer].draft;
        // Nobody goes on behind the tree.
        (draft.neural, draft.tree) = (self.levels.len(), Some(level));
        Some(Turn::at_tip(LevelId(level), LONGEST, state.budget.nodes))
    }

    /// The turn of the statistical drafter with which a level grows its tree; none if the level
    /// drafts alone.
    pub(super) fn partner_turn(
        &self,
        level: usize,
        partner: usize,
        state: &DraftState<'_>,
    ) -> Option<Turn> {
        let mut reviewers = self.reviewers.iter();
        let own = reviewers.find(|own| own.draft.tree == Some(level))?;
        let ask = own.drafters[partner].ask.max(own.drafters[level].ask);
        self.tree_of(partner, ask, state)
    }

    /// A turn of a statistical drafter that is asked for so many nodes.
    fn tree_of(&self, level: usize, ask: usize, state: &DraftState<'_>) -> Option<Turn> {
        let left = state.budget.nodes.saturating_sub(state.nodes);
        let nodes = ask.min(left);
        let depth = state.budget.depth.saturating_sub(state.depth);
        // One node less than the tree has, or it would be a chain.
        let tokens = nodes.saturating_sub(1).clamp(1, LONGEST).min(depth);
        (tokens > 0 && nodes > 0).then(|| Turn::at_tip(LevelId(level), tokens, nodes))
    }

    /// The turn of the neural drafter that pays best, or of one that is tried at the beginning of a
    /// draft.
    pub(super) fn neural_turn(&mut self, reviewer: usize, state: &DraftState<'_>) -> Option<Turn> {
        let tip = Tip::of(self.reviewers[reviewer].draft.survival, state);
        let (best, balance) = self.best_neural(reviewer, tip)?;
        let pays = balance > 0.0;
        // Levels below may go on after the token of a larger one.
        let other = if pays {
            self.neglected(reviewer, best)
        } else {
            Some(best)
        };
        let tried = other.filter(|&level| {
            let price = self.token_price(reviewer, level);
            state.nodes == 0 && self.try_out(reviewer, level, price)
        });
        let level = tried.or(pays.then_some(best))?;
        let own = &mut self.reviewers[reviewer];
        (own.draft.neural, own.draft.trial) = (level, tried.is_some());
        let tokens = if own.draft.trial { 1 } else { LONGEST };
        let branches = !own.draft.trial && own.drafters[level].gain > 0.0;
        // As many nodes as the main path takes leave none for branches.
        let nodes = if branches { state.budget.nodes } else { tokens };
        Some(Turn::at_tip(LevelId(level), tokens, nodes))
    }

    /// The neural drafter, among those that are larger than the one that pays best, whose last
    /// trial in vain is the longest ago.
    fn neglected(&self, reviewer: usize, best: usize) -> Option<usize> {
        let own = &self.reviewers[reviewer];
        let below = self.neural_below(own.draft.neural);
        let larger = below.take_while(|&level| level < best);
        let rested = larger.filter(|&level| own.reviews >= own.drafters[level].rests_until);
        rested.min_by_key(|&level| own.drafters[level].rests_until)
    }

    /// What drafting and reviewing one token costs.
    pub(super) fn token_price(&self, reviewer: usize, drafter: usize) -> f64 {
        self.token_cost(reviewer, drafter) + self.reviewers[reviewer].one_more(1)
    }

    /// Whether there is time to ask this drafter although it does not seem to pay.
    pub(super) fn try_out(&mut self, reviewer: usize, drafter: usize, price: f64) -> bool {
        let own = &mut self.reviewers[reviewer];
        let tries = own.trials >= price;
        own.draft.tried.extend(tries.then_some(drafter));
        tries
    }
}
