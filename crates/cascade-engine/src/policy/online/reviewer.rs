//! What is known of a reviewer and those who draft for it.

use std::cmp::Ordering;

use cascade_core::{LevelId, NodeId};

use super::asking::Asking;
use super::costs::{Costs, Rate};
use super::reading::Reading;
use super::shadow::Shadow;
use crate::policy::acceptance::Acceptance;
use crate::policy::lately::{Lately, SLOW};
use crate::policy::{DraftState, ForwardCost, Outcome, Turn, TurnRecord, TurnStart};

/// Before anything is known of a drafter's tokens.
pub(super) const NEURAL_PRIOR: f32 = 0.9;
pub(super) const STATISTICAL_PRIOR: f32 = 0.5;
/// Tokens that are asked of a neural drafter; it stops earlier.
pub(super) const LONGEST: usize = 64;
/// Nodes that are asked of a statistical drafter at least, as at first.
const FEWEST: usize = 4;
/// Rows over which the price of one more is taken.
const AHEAD: f64 = 4.0;
/// Share of the time that trying again may cost, and what it may cost at first, which is what is
/// saved up at most, in forwards of the target.
const TRIAL_SHARE: f64 = 0.007;
pub(super) const TRIALS: f64 = 1.0;
/// Reviews after which a drafter is tried again beside one that pays, at least.
const TRIALS_APART: u64 = 16;

/// What is known of a reviewer and those who draft for it.
#[derive(Clone, Debug)]
pub(super) struct ReviewerState {
    pub(super) costs: Costs,
    pub(super) rate: Rate,
    /// Texts that share its next forward, this one included: all, or of a drafter those that
    /// shared the last one of this draft, since few draft far.
    pub(super) texts: usize,
    /// What the reviewer has to read before it drafts, if it is a neural drafter.
    pub(super) reading: Reading,
    pub(super) turn: DraftingTurn,
    pub(super) drafters: Vec<DrafterState>,
    pub(super) draft: Progress,
    /// Time saved up for trying drafters that do not pay, in forwards of the target.
    pub(super) trials: f64,
    /// Reviews so far.
    pub(super) reviews: u64,
}

impl ReviewerState {
    /// Notes who shared a forward.
    pub(super) fn share(&mut self, forward: &ForwardCost) {
        if let Some(shared) = forward.shared {
            self.texts = shared.texts.max(1);
        }
    }

    /// Learns how busy the machine is, where times are known and costs not `fixed`.
    pub(super) fn learn_forward(&mut self, forward: &ForwardCost, usual: bool, fixed: bool) {
        if fixed || forward.time.is_zero() || !usual {
            return;
        }
        let whole = (forward.rows, forward.time);
        let (rows, time) = forward.shared.map_or(whole, |all| (all.rows, all.time));
        self.costs.learn(rows, time.as_secs_f64());
    }

    /// Learns how many rows of a drafter's forward were of text, beside those of a draft.
    pub(super) fn learn_reading(&mut self, forward: &ForwardCost, drafted: usize) {
        let rows = forward.rows.saturating_sub(drafted);
        // Where times are withheld, nothing may depend on what a cache has.
        if !forward.time.is_zero() {
            self.reading.read(rows);
        }
    }

    /// What this text pays of a forward with one row of each text, in forwards of one row.
    pub(super) fn part(&self) -> f64 {
        self.costs.at(self.texts as f64) / self.texts as f64
    }

    /// A forward in which each text has so many rows, in those of plain decoding: with one of each.
    pub(super) fn forward_of(&self, rows: f64) -> f64 {
        let texts = self.texts as f64;
        self.costs.at(texts * rows) / self.costs.at(texts)
    }

    /// What so many rows add to a forward in which this text has `rows`, in steps of plain
    /// decoding, if all texts add as many: an equal part of what they add together, N·T′(R)/T(N).
    pub(super) fn added(&self, rows: usize, more: f64) -> f64 {
        self.forward_of(rows as f64 + more) - self.forward_of(rows as f64)
    }

    /// What one more row adds to that, over the next few: kernels take rows by four or eight.
    pub(super) fn one_more(&self, rows: usize) -> f64 {
        self.added(rows, AHEAD) / AHEAD
    }

    /// What it reads for a step, in steps of plain decoding.
    pub(super) fn reading_cost(&self) -> f64 {
        self.added(1, self.reading.rows())
    }

    /// How many times the tokens of plain decoding the text earns: ρ.
    pub(super) fn gain(&self) -> f64 {
        self.rate.gain()
    }

    /// Takes what a trial cost more than it saved from the time for trials. So a drafter that
    /// became better is tried as often as it takes to see that; one that did not rests.
    pub(super) fn judge_trial(&mut self, outcome: &Outcome<'_>, one: f64) {
        let Some(Tried {
            drafter,
            token,
            row,
        }) = self.draft.tried.take()
        else {
            return;
        };
        let first = outcome.accepted.first();
        let kept = first.is_some_and(|&first| outcome.draft.proposer(first) == drafter);
        let turn = outcome
            .turns
            .iter()
            .find(|turn| turn.turn.drafter == drafter);
        // More than the price if the drafter had to read the prompt first, or drafted alone.
        let spent = turn.map_or(0.0, |turn| turn.time.as_secs_f64() / one);
        let saved = if kept { 1.0 / self.gain() } else { 0.0 };
        self.trials -= (spent.max(token) + row - saved).max(0.0);
        if !kept {
            self.drafters[drafter.0].rests_until = self.reviews + TRIALS_APART;
        }
    }

    /// The turn of the neural drafter that was chosen: one token if it is a trial, and branches as
    /// far as recent ones paid.
    pub(super) fn neural_turn(&self, level: usize, state: &DraftState<'_>) -> Turn {
        let trial = self.draft.trial;
        let (drafted, accepted) = self.drafters[level].beside;
        let price = self.gain() * self.one_more(state.nodes + 1);
        let branches = !trial && accepted >= drafted * price;
        let tokens = if trial { 1 } else { LONGEST };
        Turn {
            drafter: LevelId(level),
            tokens,
            start: TurnStart::Tip,
            reserved: 0,
            nodes: if branches {
                state.budget.nodes
            } else {
                // As many as the main path takes leave none for branches.
                tokens
            },
        }
    }

    /// Learns the rate at which a review gave tokens, and saves up time for trials.
    pub(super) fn learn_rate(&mut self, tokens: f64, spent: f64) {
        self.rate.learn(tokens, spent, self.texts);
        self.trials = (self.trials + TRIAL_SHARE * spent).min(TRIALS);
    }

    /// Learns which nodes beside the main path of a neural drafter's turn were accepted.
    pub(super) fn learn_branches(&mut self, outcome: &Outcome<'_>, turn: &TurnRecord) {
        let drafter = turn.turn.drafter;
        let beside =
            |node: &NodeId| outcome.draft.proposer(*node) == drafter && !turn.path.contains(node);
        let drafted = (0..outcome.draft.len()).filter(beside).count();
        let accepted = outcome.accepted.iter().filter(|node| beside(node)).count();
        let sums = &mut self.drafters[drafter.0].beside;
        *sums = (
            (1.0 - SLOW) * sums.0 + drafted as f64,
            (1.0 - SLOW) * sums.1 + accepted as f64,
        );
    }
}

/// What a neural drafter's turns take beside its forwards and those who draft for it: what its
/// tokens are chosen and kept by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DraftingTurn {
    /// Forwards of the turn in progress.
    forwards: u32,
    /// Seconds of all reviews of the turn in progress, its forwards included.
    seconds: f64,
    /// Seconds of a turn beside its forwards, for each forward.
    pub(super) beside: Lately,
}

impl DraftingTurn {
    pub(super) fn has(&mut self, seconds: f64) {
        self.forwards += 1;
        self.seconds += seconds;
    }

    /// The turn took so long.
    pub(super) fn ends(&mut self, seconds: f64) {
        if self.forwards > 0 {
            let beside = (seconds - self.seconds).max(0.0);
            self.beside.learn(beside / f64::from(self.forwards));
        }
        (self.forwards, self.seconds) = (0, 0.0);
    }
}

/// What is known of a drafter in the eyes of a reviewer.
#[derive(Clone, Debug)]
pub(super) struct DrafterState {
    /// Acceptance of tokens by their position and the probability that the drafter states.
    pub(super) stated: Acceptance,
    /// Acceptance of the next token, by its position alone.
    pub(super) next: Acceptance,
    /// Nodes beside the main path that were recently drafted and accepted.
    pub(super) beside: (f64, f64),
    /// Nodes to ask for.
    pub(super) ask: usize,
    /// Whether asking the drafter pays, if it is statistical.
    pub(super) asking: Asking,
    /// The review before which it may not be tried again.
    pub(super) rests_until: u64,
}

impl DrafterState {
    /// Asks for more nodes next time if more than half of those that it asked for were kept, and
    /// for fewer if they were not.
    pub(super) fn ask_by(&mut self, kept: usize) {
        let next = match (2 * kept).cmp(&self.ask) {
            Ordering::Greater => 2 * self.ask,
            _ => (3 * self.ask / 4).max(2 * kept),
        };
        self.ask = next.clamp(FEWEST, LONGEST);
    }

    pub(super) fn new(stated: Acceptance) -> Self {
        Self {
            stated,
            next: Acceptance::new(NEURAL_PRIOR),
            // As if every branch had paid.
            beside: (8.0, 8.0),
            ask: FEWEST,
            asking: Asking::new(),
            rests_until: 0,
        }
    }
}

/// The draft in progress for a reviewer.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// Probability that the main path is accepted.
    pub(super) survival: f64,
    /// The smallest neural level that drafted, or the reviewer itself.
    pub(super) neural: usize,
    /// Whether a neural drafter drafts as a trial: one token.
    pub(super) trial: bool,
    /// The drafter that was tried at the beginning.
    pub(super) tried: Option<Tried>,
    pub(super) proposals: Vec<Shadow>,
    /// Whether a statistical drafter left the rest to a neural one.
    pub(super) handed_over: bool,
    /// Whether a model read its prompt, so that the time of the draft says nothing.
    pub(super) unusual: bool,
    /// The neural drafter that grows a tree with a statistical one.
    pub(super) tree: Option<usize>,
    /// Which rows of a tree a neural drafter has scored, if it has any.
    pub(super) answered: Option<Vec<bool>>,
}

impl Progress {
    pub(super) fn new(reviewer: usize) -> Self {
        Self {
            survival: 1.0,
            neural: reviewer,
            trial: false,
            tried: None,
            proposals: Vec::new(),
            handed_over: false,
            unusual: false,
            tree: None,
            answered: None,
        }
    }
}

/// A drafter that is tried for a token, and what that is expected to cost in forwards of the
/// reviewer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    pub(super) drafter: LevelId,
    /// What drafting the token costs.
    pub(super) token: f64,
    /// What reviewing the token costs.
    pub(super) row: f64,
}
