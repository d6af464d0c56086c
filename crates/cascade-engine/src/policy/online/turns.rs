//! Who drafts next.

use cascade_core::LevelId;

use super::OnlineSchedule;
use super::prices::Tip;
use super::reviewer::{LONGEST, Tried};
use crate::policy::{DraftState, Turn, TurnStart};

impl OnlineSchedule {
    /// Whether a statistical drafter is asked: if it pays, or if there is time to try.
    fn is_asked(&mut self, reviewer: usize, drafter: usize) -> bool {
        let asked = self.pays(reviewer, drafter)
            || self.reviewers[reviewer].trials >= self.question(reviewer, drafter);
        let learner = &mut self.learners[drafter];
        learner.asked |= asked;
        learner.declined |= !asked;
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
        self.reviewers[level].reading.ask(state.depth);
        let draft = &mut self.reviewers[reviewer].draft;
        // Nobody goes on behind the tree.
        (draft.neural, draft.tree) = (self.levels.len(), Some(level));
        Some(Turn {
            drafter: LevelId(level),
            tokens: LONGEST,
            start: TurnStart::Tip,
            reserved: 0,
            nodes: state.budget.nodes,
        })
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
        (nodes > 0 && tokens > 0).then_some(Turn {
            drafter: LevelId(level),
            tokens,
            start: TurnStart::Tip,
            reserved: 0,
            nodes,
        })
    }

    pub(super) fn neural_turn(&mut self, reviewer: usize, state: &DraftState<'_>) -> Option<Turn> {
        let survival = self.reviewers[reviewer].draft.survival;
        let at = Tip::of(state);
        let (level, balance) = self.best_neural(reviewer, survival, at, |_| true)?;
        if reviewer == 0 && !self.reviewers[0].draft.handed_over {
            self.reviewers[level].reading.offer(balance);
        }
        let worth = |level| self.is_worth_reading(reviewer, level);
        let paying = if worth(level) {
            Some((level, balance))
        } else {
            self.best_neural(reviewer, survival, at, worth)
        };
        let (level, pays) = match paying.filter(|(_, balance)| *balance > 0.0) {
            Some((level, _)) => (level, true),
            None => (level, false),
        };
        let (level, trial) = match (pays, self.neglected(reviewer, level)) {
            // Levels below may go on after its token.
            (true, Some(larger)) if self.try_out(reviewer, larger, state) => (larger, true),
            (true, _) => (level, false),
            (false, _) if self.try_out(reviewer, level, state) => (level, true),
            (false, _) => return None,
        };
        self.reviewers[level].reading.ask(state.depth);
        let own = &mut self.reviewers[reviewer];
        own.draft.neural = level;
        own.draft.trial = trial;
        Some(own.neural_turn(level, state))
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

    /// Whether this drafter is tried although it does not seem to pay: at the beginning of a draft,
    /// if there is time for it.
    pub(super) fn try_out(
        &mut self,
        reviewer: usize,
        drafter: usize,
        state: &DraftState<'_>,
    ) -> bool {
        let own = &self.reviewers[reviewer];
        let tried = Tried {
            drafter: LevelId(drafter),
            token: self.token_cost(reviewer, drafter),
            row: own.one_more(1),
        };
        let own = &mut self.reviewers[reviewer];
        let tries = state.nodes == 0 && own.trials >= tried.token + tried.row;
        own.draft.tried = tries.then_some(tried).or(own.draft.tried);
        tries
    }
}
