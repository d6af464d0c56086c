//! What is known of a reviewer and those who draft for it.

use super::costs::{Costs, Rate};
use super::shadow::Shadow;
use crate::policy::acceptance::Acceptance;
use crate::policy::lately::{FAST, Lately, weight};

/// Before anything is known of a drafter's tokens.
pub(super) const NEURAL_PRIOR: f32 = 0.9;
pub(super) const STATISTICAL_PRIOR: f32 = 0.5;
/// Tokens that are asked of a neural drafter; it stops earlier.
pub(super) const LONGEST: usize = 64;
/// Nodes that are asked of a statistical drafter at least, as at first.
const FEWEST: usize = 4;
/// What a drafter that was never asked is expected to save with a proposal.
const HOPE: f64 = 0.25;
/// Rows over which the price of one more is taken.
const AHEAD: f64 = 4.0;
/// Share of the time that trying again may cost, and what it may cost at first, which is what is
/// saved up at most, in forwards of the target.
const TRIAL_SHARE: f64 = 0.007;
pub(super) const TRIALS: f64 = 1.0;
/// Reviews after which a drafter is tried again beside one that pays, at least.
pub(super) const TRIALS_APART: u64 = 16;

/// What is known of a reviewer and those who draft for it.
#[derive(Clone, Debug)]
pub(super) struct ReviewerState {
    pub(super) costs: Costs,
    pub(super) rate: Rate,
    /// Texts that share its next forward, this one included: all, or of a drafter those that
    /// shared the last one of this draft, since few draft far.
    pub(super) texts: usize,
    /// Seconds that the reviews of its turn in progress should take, if it is a neural drafter.
    pub(super) in_turn: f64,
    /// Seconds that its turns took of late beside that, for each forward: reading text, and
    /// choosing tokens.
    pub(super) beside: Lately,
    pub(super) drafters: Vec<DrafterState>,
    pub(super) draft: Progress,
    /// Time saved up for trying drafters that do not pay, in forwards of the target.
    pub(super) trials: f64,
    /// Reviews so far.
    pub(super) reviews: u64,
}

impl ReviewerState {
    /// What this text pays of a forward with one row of each text, in seconds; `None` before the
    /// first measurement.
    pub(super) fn one(&self) -> Option<f64> {
        let texts = self.texts as f64;
        Some(self.costs.seconds(texts)? / texts)
    }

    /// A forward in which each text has so many rows, in those of plain decoding: with one of each.
    pub(super) fn forward_of(&self, rows: f64) -> f64 {
        let texts = self.texts as f64;
        self.costs.at(texts * rows) / self.costs.at(texts)
    }

    /// What so many rows add to a forward in which this text has `rows`, in steps of plain
    /// decoding, if all texts add as many: an equal part of what they add together, N·T′(R)/T(N).
    pub(super) fn added(&self, rows: usize, more: f64) -> f64 {
        let (texts, rows) = (self.texts as f64, rows as f64);
        let at = |rows: f64| self.costs.at(texts * rows);
        (at(rows + more) - at(rows)) / at(1.0)
    }

    /// What one more row adds to that, over the next few: kernels take rows by four or eight.
    pub(super) fn one_more(&self, rows: usize) -> f64 {
        self.added(rows, AHEAD) / AHEAD
    }

    /// How many times the tokens of plain decoding the text earns: ρ.
    pub(super) fn gain(&self) -> f64 {
        self.rate.gain()
    }

    /// Learns the rate at which a review gave tokens, and saves up time for trials.
    pub(super) fn learn_rate(&mut self, tokens: f64, spent: f64) {
        self.rate.learn(tokens, spent, self.texts);
        self.trials = (self.trials + TRIAL_SHARE * spent).min(TRIALS);
    }
}

/// What is known of a drafter in the eyes of a reviewer.
#[derive(Clone, Debug)]
pub(super) struct DrafterState {
    /// Acceptance of tokens by their position and the probability that the drafter states.
    pub(super) stated: Acceptance,
    /// Acceptance of the next token, by its position alone.
    pub(super) next: Acceptance,
    /// Nodes to ask for.
    pub(super) ask: usize,
    /// What recent proposals of a statistical drafter saved, whether they were drafted or not, or
    /// recent branches of a neural one: tokens less the price of their rows, and less what another
    /// drafter saves in their place.
    pub(super) gain: f64,
    /// Proposals so far.
    proposals: f64,
    /// What a proposal of a statistical drafter took of late.
    pub(super) seconds: Lately,
    /// The review before which it may not be tried again.
    pub(super) rests_until: u64,
}

impl DrafterState {
    /// Learns what a proposal saves.
    pub(super) fn gained(&mut self, tokens: f64) {
        self.proposals += 1.0;
        self.gain += weight(FAST, self.proposals) * (tokens - self.gain);
    }

    /// Asks for more nodes next time if more than half of those that it asked for were kept, and
    /// for fewer if they were not.
    pub(super) fn ask_by(&mut self, kept: usize) {
        let next = match 2 * kept {
            most if most > self.ask => 2 * self.ask,
            few => few.max(3 * self.ask / 4),
        };
        self.ask = next.clamp(FEWEST, LONGEST);
    }

    pub(super) fn new(stated: Acceptance) -> Self {
        Self {
            stated,
            next: Acceptance::new(NEURAL_PRIOR),
            ask: FEWEST,
            gain: HOPE,
            proposals: 0.0,
            seconds: Lately::default(),
            rests_until: 0,
        }
    }
}

/// The draft in progress for a reviewer.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Probability that the main path is accepted.
    pub(super) survival: f64,
    /// The smallest neural level that drafted, or the reviewer itself.
    pub(super) neural: usize,
    /// Whether a neural drafter drafts as a trial: one token.
    pub(super) trial: bool,
    /// The drafters that are asked although they do not seem to pay.
    pub(super) tried: Vec<usize>,
    pub(super) proposals: Vec<Shadow>,
    /// Whether a model read its prompt, so that the time of the draft says nothing.
    pub(super) unusual: bool,
    /// The neural drafter that grows a tree with a statistical one.
    pub(super) tree: Option<usize>,
    /// Which rows of a tree a neural drafter has scored, if it has any.
    pub(super) answered: Option<Vec<bool>>,
    /// Forwards by which it did.
    pub(super) forwards: usize,
}

impl Progress {
    pub(super) fn new(reviewer: usize) -> Self {
        Self {
            survival: 1.0,
            neural: reviewer,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hope_is_lost_after_a_few_proposals_and_found_again_after_fewer() {
        let mut drafter = DrafterState::new(Acceptance::of_counts(STATISTICAL_PRIOR));
        (0..8).for_each(|_| drafter.gained(0.0));
        assert!(drafter.gain < 0.1);
        (0..1000).for_each(|_| drafter.gained(0.0));
        (0..3).for_each(|_| drafter.gained(2.0));
        assert!(drafter.gain > 0.3);
    }
}
