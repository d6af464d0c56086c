//! The online scheduler: one price for every drafted token.

use cascade_core::{ForwardTimes, LevelId, NodeId, RowTimes, ScoredTree, TokenTree, Want};
use std::cmp::Ordering;

use super::acceptance::Acceptance;
use super::asking::Asking;
use super::costs::{Costs, Rate};
use super::lately::{Lately, SLOW};
use super::pending::Pending;
use super::reading::Reading;
use super::shadow::Shadow;
use super::statement::OnStatement;
use super::{
    DraftState, DraftedToken, ForwardCost, GrowingTree, NewText, Outcome, Plan, Schedule, Turn,
    TurnRecord, TurnStart,
};
use crate::{LevelSpec, Result};

/// Drafts what pays at present: every token that is expected to save more time than it costs.
///
/// Let ρ be the tokens per second that the reviewer earns. A token that will be kept with
/// probability p adds p tokens, so it is worth drafting exactly if p > ρ·Δt, where Δt is what it
/// costs: its drafter's forward, if there is one, and what one more row adds to the reviewer's
/// forward. The length of chains, the size of trees, the choice of the drafter and drafting nothing
/// are that one comparison, at every level of the cascade:
///
/// * Of a statistical drafter's proposal the most probable paths are kept, as many as maximize
///   expected tokens − ρ · time. It is asked where its recent proposals saved more than the time
///   that asking took, learning from the text included.
/// * A neural drafter drafts if its best length has a positive balance, and goes on while the next
///   token has. A [tree of the most probable nodes](crate::Expand::MostProbable) has those that
///   pay, and grows while what one more forward is expected to add does; with a statistical
///   drafter that mixes probabilities, to what that one has proposed.
/// * A chain of a statistical drafter is cut where it is better to let a neural one go on.
///
/// p is what the drafter says of its token (the probability of a neural drafter, the estimate of a
/// statistical one), corrected by what became of its tokens, by statement and position and for the
/// text itself, with forgetting. What a forward takes by its rows is known ([`AssumedCosts`]); how
/// much longer it does take is how busy the machine is. ρ is the rate of late, in units of plain
/// decoding, never below 1: Dinkelbach's fixed point, approached while generating. What a
/// statistical drafter proposed in vain or what was cut is compared with the text as well, so that
/// drafting goes on when it pays again. Where nothing seems to pay, a token of a neural drafter is
/// tried now and then, and so is one of a larger drafter than the one that pays; and a statistical
/// drafter that does not pay is asked. All that takes at most 0.7% of the time in vain.
///
/// # Determinism
/// Decisions are a function of outcomes and times; greedy and coupled texts are not changed by
/// them. Where what is drafted changes which tokens a seed draws
/// ([`Rule::DRAWN`](crate::Rule::DRAWN)), the schedule begins anew and sees no times: then it
/// decides by [`AssumedCosts`], and a seed's answer depends neither on the machine nor on earlier
/// requests.
#[derive(Clone, Debug)]
pub struct OnlineSchedule {
    assumed: AssumedCosts,
    levels: Vec<LevelKind>,
    /// The state of each level as a reviewer: the target, then each drafter.
    reviewers: Vec<ReviewerState>,
    pending: Pending,
    /// What each statistical drafter does in a step, by level.
    learners: Vec<Learner>,
    /// Whether times are withheld in this text.
    is_untimed: bool,
    on_statement: OnStatement,
}

/// What a level is.
#[derive(Clone, Copy, Debug)]
struct LevelKind {
    is_neural: bool,
    /// The statistical drafter with which it grows trees.
    partner: Option<usize>,
}

impl LevelKind {
    /// The kind of each level, the target first.
    fn of(levels: &[LevelSpec<'_>]) -> Vec<Self> {
        let partner = |level: usize| (level..levels.len()).find(|&it| levels[it].takes_advice());
        let kind = |(level, spec): (usize, &LevelSpec<'_>)| Self {
            is_neural: spec.is_neural(),
            partner: partner(level).filter(|_| spec.grows_trees()),
        };
        levels.iter().enumerate().map(kind).collect()
    }
}

/// What a statistical drafter does in a step of the target.
#[derive(Clone, Copy, Debug, Default)]
struct Learner {
    /// Whether it was not worth asking, and whether somebody asked it anyway.
    declined: bool,
    asked: bool,
}

/// What forwards cost: as measured before, or assumed, as where times are withheld.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedCosts {
    /// What one more row adds to a forward, in forwards of one row.
    pub row: f64,
    /// A forward of each drafter in forwards of the target, largest drafter first; 0 for
    /// statistical ones. Missing ones cost a fifth.
    pub drafters: Vec<f64>,
    /// What forwards take by rows where that was measured before, by level, the target first, in
    /// place of the above.
    pub measured: Vec<Option<ForwardTimes>>,
    /// Whether these costs are kept, whatever forwards take: the machine is as busy as it was.
    pub fixed: bool,
}

impl AssumedCosts {
    /// Costs of a level's forwards. Measured ones only if the schedule sees times, or they are to
    /// be kept.
    fn of_level(&self, level: usize, untimed: bool) -> Costs {
        let measured = self.measured.get(level).and_then(Option::as_ref);
        match measured.filter(|_| self.fixed || !untimed) {
            Some(times) => Costs::measured(times.clone()),
            None => Costs::assumed(RowTimes::linear(1.0, self.row).into()),
        }
    }
}

impl Default for AssumedCosts {
    /// A row adds 2%.
    fn default() -> Self {
        Self {
            row: 0.02,
            drafters: Vec::new(),
            measured: Vec::new(),
            fixed: false,
        }
    }
}

/// A drafter's forward if nothing is said.
const DRAFTER: f64 = 0.2;
/// Before anything is known of a drafter's tokens.
const NEURAL_PRIOR: f32 = 0.9;
const STATISTICAL_PRIOR: f32 = 0.5;
/// Tokens of a neural drafter that are planned for at most.
const HORIZON: usize = 16;
/// Tokens that are asked of a neural drafter; it stops earlier.
const LONGEST: usize = 64;
/// Nodes that are asked of a statistical drafter at least, as at first.
const FEWEST: usize = 4;
/// Rows over which the price of one more is taken.
const AHEAD: f64 = 4.0;
/// Share of the time that trying again may cost, and what it may cost at first, which is what is
/// saved up at most, in forwards of the target.
const TRIAL_SHARE: f64 = 0.007;
const TRIALS: f64 = 1.0;
/// Reviews after which a drafter is tried again beside one that pays, at least.
const TRIALS_APART: u64 = 16;

/// What is known of a reviewer and those who draft for it.
#[derive(Clone, Debug)]
struct ReviewerState {
    costs: Costs,
    rate: Rate,
    /// Texts that share its next forward, this one included: all, or of a drafter those that
    /// shared the last one of this draft, since few draft far.
    texts: usize,
    /// What the reviewer has to read before it drafts, if it is a neural drafter.
    reading: Reading,
    turn: DraftingTurn,
    drafters: Vec<DrafterState>,
    draft: Progress,
    /// Time saved up for trying drafters that do not pay, in forwards of the target.
    trials: f64,
    /// Reviews so far.
    reviews: u64,
}

/// What a neural drafter's turns take beside its forwards and those who draft for it: what its
/// tokens are chosen and kept by.
#[derive(Clone, Copy, Debug, Default)]
struct DraftingTurn {
    /// Forwards of the turn in progress.
    forwards: u32,
    /// Seconds of all reviews of the turn in progress, its forwards included.
    seconds: f64,
    /// Seconds of a turn beside its forwards, for each forward.
    beside: Lately,
}

impl DraftingTurn {
    fn has(&mut self, seconds: f64) {
        self.forwards += 1;
        self.seconds += seconds;
    }

    /// The turn took so long.
    fn ends(&mut self, seconds: f64) {
        if self.forwards > 0 {
            let beside = (seconds - self.seconds).max(0.0);
            self.beside.learn(beside / f64::from(self.forwards));
        }
        (self.forwards, self.seconds) = (0, 0.0);
    }
}

impl ReviewerState {
    /// Notes who shared a forward.
    fn share(&mut self, forward: &ForwardCost) {
        if let Some(shared) = forward.shared {
            self.texts = shared.texts.max(1);
        }
    }

    /// Learns how busy the machine is, where times are known and costs not `fixed`.
    fn learn_forward(&mut self, forward: &ForwardCost, usual: bool, fixed: bool) {
        if fixed || forward.time.is_zero() || !usual {
            return;
        }
        let whole = (forward.rows, forward.time);
        let (rows, time) = forward.shared.map_or(whole, |all| (all.rows, all.time));
        self.costs.learn(rows, time.as_secs_f64());
    }

    /// Learns how many rows of a drafter's forward were of text, beside those of a draft.
    fn learn_reading(&mut self, forward: &ForwardCost, drafted: usize) {
        let rows = forward.rows.saturating_sub(drafted);
        // Where times are withheld, nothing may depend on what a cache has.
        if !forward.time.is_zero() {
            self.reading.read(rows);
        }
    }

    /// What this text pays of a forward with one row of each text, in forwards of one row.
    fn part(&self) -> f64 {
        self.costs.at(self.texts as f64) / self.texts as f64
    }

    /// A forward in which each text has so many rows, in those of plain decoding: with one of each.
    fn forward_of(&self, rows: f64) -> f64 {
        let texts = self.texts as f64;
        self.costs.at(texts * rows) / self.costs.at(texts)
    }

    /// What so many rows add to a forward in which this text has `rows`, in steps of plain
    /// decoding, if all texts add as many: an equal part of what they add together, N·T′(R)/T(N).
    fn added(&self, rows: usize, more: f64) -> f64 {
        self.forward_of(rows as f64 + more) - self.forward_of(rows as f64)
    }

    /// What one more row adds to that, over the next few: kernels take rows by four or eight.
    fn one_more(&self, rows: usize) -> f64 {
        self.added(rows, AHEAD) / AHEAD
    }

    /// What it reads for a step, in steps of plain decoding.
    fn reading_cost(&self) -> f64 {
        self.added(1, self.reading.rows())
    }

    /// How many times the tokens of plain decoding the text earns: ρ.
    fn gain(&self) -> f64 {
        self.rate.gain()
    }

    /// Takes what a trial cost more than it saved from the time for trials. So a drafter that
    /// became better is tried as often as it takes to see that; one that did not rests.
    fn judge_trial(&mut self, outcome: &Outcome<'_>, one: f64) {
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
}

/// What is known of a drafter in the eyes of a reviewer.
#[derive(Clone, Debug)]
struct DrafterState {
    /// Acceptance of tokens by their position and the probability that the drafter states.
    stated: Acceptance,
    /// Acceptance of the next token, by its position alone.
    next: Acceptance,
    /// Nodes beside the main path that were recently drafted and accepted.
    beside: (f64, f64),
    /// Nodes to ask for.
    ask: usize,
    /// Whether asking the drafter pays, if it is statistical.
    asking: Asking,
    /// The review before which it may not be tried again.
    rests_until: u64,
}

/// What is kept of a proposal.
struct Kept {
    nodes: Vec<bool>,
    /// Probability of the main path's end.
    survival: f64,
    /// Expected tokens less their price, beside what a neural drafter would save.
    gain: f64,
    /// A neural drafter that could go on, and what that would gain beyond the best nodes.
    offer: Option<(usize, f64)>,
    /// Whether that is why no more nodes are kept.
    handed_over: bool,
}

/// The draft in progress for a reviewer.
#[derive(Clone, Debug)]
struct Progress {
    /// Probability that the main path is accepted.
    survival: f64,
    /// The smallest neural level that drafted, or the reviewer itself.
    neural: usize,
    /// Whether a neural drafter drafts as a trial: one token.
    trial: bool,
    /// The drafter that was tried at the beginning.
    tried: Option<Tried>,
    proposals: Vec<Shadow>,
    /// Whether a statistical drafter left the rest to a neural one.
    handed_over: bool,
    /// Whether a model read its prompt, so that the time of the draft says nothing.
    unusual: bool,
    /// The neural drafter that grows a tree with a statistical one.
    tree: Option<usize>,
    /// Which rows of a tree a neural drafter has scored, if it has any.
    answered: Option<Vec<bool>>,
}

/// A drafter that is tried for a token, and what that is expected to cost in forwards of the
/// reviewer.
#[derive(Clone, Copy, Debug)]
struct Tried {
    drafter: LevelId,
    /// What drafting the token costs.
    token: f64,
    /// What reviewing the token costs.
    row: f64,
}

/// A chain of a statistical drafter after which a neural one goes on, and what both gain.
struct Handover {
    length: usize,
    drafter: usize,
    balance: f64,
}

/// Where a draft goes on.
#[derive(Clone, Copy, Debug)]
struct Tip {
    depth: usize,
    /// Nodes of the draft so far.
    nodes: usize,
}

impl Tip {
    fn of(state: &DraftState<'_>) -> Self {
        Self {
            depth: state.depth,
            nodes: state.nodes,
        }
    }

    /// After so many further tokens.
    fn after(self, tokens: usize) -> Self {
        Self {
            depth: self.depth + tokens,
            nodes: self.nodes + tokens,
        }
    }
}

impl Progress {
    fn new(reviewer: usize) -> Self {
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

impl OnlineSchedule {
    /// A schedule that knows nothing yet.
    pub fn new(assumed: AssumedCosts) -> Self {
        Self {
            assumed,
            levels: Vec::new(),
            reviewers: Vec::new(),
            pending: Pending::default(),
            learners: Vec::new(),
            is_untimed: false,
            on_statement: OnStatement::default(),
        }
    }

    /// Gives what became of drafters' statements to this.
    pub fn telling(self, on_statement: OnStatement) -> Self {
        Self {
            on_statement,
            ..self
        }
    }

    /// Forgets everything.
    fn begin_anew(&mut self, untimed: bool) {
        self.is_untimed = untimed;
        self.pending = Pending::default();
        self.learners = vec![Learner::default(); self.levels.len()];
        let drafter = |kind: &LevelKind| {
            DrafterState::new(if kind.is_neural {
                Acceptance::new(NEURAL_PRIOR)
            } else {
                Acceptance::of_counts(STATISTICAL_PRIOR)
            })
        };
        let drafters: Vec<_> = self.levels.iter().map(drafter).collect();
        let reviewer = |level| ReviewerState {
            costs: self.assumed.of_level(level, untimed),
            rate: Rate::default(),
            texts: 1,
            reading: Reading::default(),
            turn: DraftingTurn::default(),
            drafters: drafters.clone(),
            draft: Progress::new(level),
            trials: TRIALS,
            reviews: 0,
        };
        self.reviewers = (0..self.levels.len()).map(reviewer).collect();
        for drafter in 1..self.levels.len() {
            let expected = self.expected_rate(drafter);
            self.reviewers[drafter].rate.begin_with(expected);
        }
    }

    /// Tokens per forward of one row that a drafter is thought to give with the best of those below
    /// it, until it has drafted.
    fn expected_rate(&self, drafter: usize) -> f64 {
        let own = &self.reviewers[drafter];
        let rates = self.neural_below(drafter).flat_map(|level| {
            let token = self.forward(level) / self.forward(drafter);
            (1..=HORIZON).map(move |length| {
                let p = f64::from(NEURAL_PRIOR);
                let tokens: f64 = (0..=length).map(|kept| p.powi(kept as i32)).sum();
                tokens / (own.forward_of(length as f64 + 1.0) + length as f64 * token)
            })
        });
        rates.fold(1.0, f64::max)
    }

    fn is_neural(&self, level: usize) -> bool {
        level > 0 && self.levels.get(level).is_some_and(|it| it.is_neural)
    }

    /// The neural drafters below a level, largest first.
    fn neural_below(&self, level: usize) -> impl Iterator<Item = usize> + '_ {
        (level + 1..self.levels.len()).filter(|&level| self.is_neural(level))
    }

    /// This text's part of a forward of a level without drafts: in seconds if the target was
    /// measured, else in its forwards.
    fn forward(&self, level: usize) -> f64 {
        let measured = |level: usize| {
            let own = &self.reviewers[level];
            own.costs.one().map(|one| one * own.part())
        };
        let of_target = measured(0);
        let target = of_target.unwrap_or(1.0);
        if level == 0 {
            return target;
        }
        let assumed = self.assumed.drafters.get(level - 1).copied();
        let seconds = measured(level).filter(|_| of_target.is_some());
        seconds.unwrap_or(assumed.unwrap_or(DRAFTER) * target)
    }

    /// What a token of a neural drafter costs, in forwards of the reviewer, its row not included:
    /// the drafter's forward, and what its turns take beside forwards. Levels below may give it
    /// several tokens in a forward.
    fn token_cost(&self, reviewer: usize, drafter: usize) -> f64 {
        let own = &self.reviewers[drafter];
        let beside = match self.reviewers[0].costs.one() {
            Some(_) if !self.assumed.fixed => own.turn.beside.time(),
            // Costs are kept, or nothing is in seconds yet.
            _ => 0.0,
        };
        (self.forward(drafter) + beside) / (own.gain() * self.forward(reviewer))
    }

    /// Expected tokens less their price, of the best length of a neural drafter that goes on after
    /// `depth` tokens of a draft with so many nodes, if they survive with this probability.
    fn balance(&self, reviewer: usize, drafter: usize, survival: f64, at: Tip) -> f64 {
        let own = &self.reviewers[reviewer];
        let acceptance = &own.drafters[drafter].next;
        let token = self.token_cost(reviewer, drafter);
        let rate = own.gain();
        let rows = at.nodes + 1;
        let (mut survival, mut tokens) = (survival, 0.0);
        let mut best = f64::NEG_INFINITY;
        for ahead in 0..HORIZON {
            survival *= acceptance.estimate(None, at.depth + ahead);
            tokens += survival;
            let drafted = (ahead + 1) as f64;
            let price = drafted * token + own.added(rows, drafted);
            best = best.max(tokens - rate * price);
        }
        best
    }

    /// Whether a neural drafter earns what it takes it to read the target's text, or drafts for
    /// another.
    fn is_worth_reading(&self, reviewer: usize, drafter: usize) -> bool {
        let (own, above) = (&self.reviewers[drafter], &self.reviewers[reviewer]);
        let forward = self.forward(drafter) / self.forward(reviewer);
        let price = above.gain() * forward * own.reading_cost();
        let earned = own.reading.earned().filter(|_| reviewer == 0);
        earned.is_none_or(|earned| earned >= price)
    }

    /// The neural drafter with the best balance, of those that are `taken` and may go on; each
    /// drafts once, and smaller ones after larger ones.
    fn best_neural(
        &self,
        reviewer: usize,
        survival: f64,
        at: Tip,
        taken: impl Fn(usize) -> bool,
    ) -> Option<(usize, f64)> {
        let after = self.reviewers[reviewer].draft.neural;
        let levels = self.neural_below(after).filter(|&level| taken(level));
        let balances = levels.map(|level| (level, self.balance(reviewer, level, survival, at)));
        balances.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Whether what a statistical drafter saves is worth the time that it takes.
    fn pays(&self, reviewer: usize, drafter: usize) -> bool {
        let own = &self.reviewers[reviewer];
        let price = own.gain() * self.question(reviewer, drafter);
        own.drafters[drafter].asking.gain() >= price
    }

    /// What asking a statistical drafter takes, in forwards of the reviewer.
    fn question(&self, reviewer: usize, drafter: usize) -> f64 {
        let asking = &self.reviewers[reviewer].drafters[drafter].asking;
        asking.seconds() / self.forward(reviewer)
    }

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
    fn statistical_turn(&mut self, reviewer: usize, state: &DraftState<'_>) -> Option<Turn> {
        let last = state.turns.last().map(|last| last.turn.drafter.0);
        let asked = last.filter(|&last| !self.is_neural(last));
        let mut levels = asked.unwrap_or(reviewer) + 1..self.levels.len();
        let level =
            levels.find(|&level| !self.is_neural(level) && self.is_asked(reviewer, level))?;
        self.tree_of(level, self.reviewers[reviewer].drafters[level].ask, state)
    }

    /// The turn of a neural drafter that grows a tree with a statistical one that is asked: whether
    /// it scores anything shows when the other's tree is there.
    fn tree_turn(&mut self, reviewer: usize, state: &DraftState<'_>) -> Option<Turn> {
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
    fn partner_turn(&self, level: usize, partner: usize, state: &DraftState<'_>) -> Option<Turn> {
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

    fn neural_turn(&mut self, reviewer: usize, state: &DraftState<'_>) -> Option<Turn> {
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
    fn try_out(&mut self, reviewer: usize, drafter: usize, state: &DraftState<'_>) -> bool {
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

    /// Finds the nodes of a proposal that are worth their rows.
    fn worthwhile(&self, reviewer: usize, state: &DraftState<'_>, proposal: &Shadow) -> Kept {
        let own = &self.reviewers[reviewer];
        let acceptance = &own.drafters[proposal.drafter.0].stated;
        let paths = proposal.path_probabilities(|stated, depth| acceptance.estimate(stated, depth));
        let survival = own.draft.survival;
        let price = |nodes: usize| own.gain() * own.added(state.nodes + 1, nodes as f64);
        let mut order: Vec<NodeId> = (0..paths.len()).collect();
        // Ancestors come first: they are no less probable, and were pushed earlier.
        order.sort_by(|&a, &b| paths[b].total_cmp(&paths[a]));
        let (best, count) = best_count(order.iter().map(|&node| survival * paths[node]), price);
        let chain = proposal.first_children();
        let along = chain.iter().map(|&node| survival * paths[node]);
        let along: Vec<f64> = std::iter::once(survival).chain(along).collect();
        let at = Tip::of(state);
        let any = self.best_handover(reviewer, at, &along, price, |_| true);
        let offer = any.0.as_ref().map(|it| (it.drafter, it.balance - best));
        let worth = |level| self.is_worth_reading(reviewer, level);
        let (handover, without) = if self.neural_below(own.draft.neural).all(worth) {
            any
        } else {
            self.best_handover(reviewer, at, &along, price, worth)
        };
        let handover = handover.filter(|handover| handover.balance > best);
        let handed_over = handover.is_some();
        let (best, kept) = match handover {
            Some(handover) => (handover.balance, &chain[..handover.length]),
            None => (best, &order[..count]),
        };
        let mut keep = vec![false; paths.len()];
        kept.iter().for_each(|&node| keep[node] = true);
        let tip = proposal.kept_tip(&keep);
        Kept {
            nodes: keep,
            survival: tip.map_or(1.0, |tip| paths[tip]),
            gain: best - without,
            offer,
            handed_over,
        }
    }

    /// Who gave a tree its probabilities: the neural drafter that grows it, or the statistical one
    /// before the other has scored anything.
    fn grown_by(&self, reviewer: usize, level: usize) -> usize {
        let unscored = self.reviewers[reviewer].draft.answered.is_none();
        let partner = self.levels[level].partner;
        partner.filter(|_| unscored).unwrap_or(level)
    }

    /// Finds the rows of a tree that are worth another forward: after nodes that pay themselves,
    /// where a better child than those that are there pays, if all of these are worth the forward.
    fn worth_scoring(&mut self, state: &DraftState<'_>, growing: &GrowingTree<'_>) -> Vec<bool> {
        let (reviewer, level) = (growing.reviewer.0, growing.drafter.0);
        let by = self.grown_by(reviewer, level);
        let mut proposal = Shadow::new(LevelId(by), state, growing.proposed);
        let kept = self.worthwhile(reviewer, state, &proposal);
        let (rows, gain) = self.better_children(state, growing, &proposal, &kept.nodes);
        let own = &self.reviewers[reviewer];
        let none = vec![false; rows.len()];
        if own.draft.answered.is_some() {
            return if gain > 0.0 && !own.draft.trial {
                rows
            } else {
                none
            };
        }
        if reviewer == 0 {
            self.reviewers[level].reading.offer(gain);
        }
        let pays = gain > 0.0 && self.is_worth_reading(reviewer, level);
        if !pays && !self.try_out(reviewer, level, state) {
            return none;
        }
        // What the partner's own tree is worth shows, though it is grown anew.
        proposal.drafted.fill(false);
        let own = &mut self.reviewers[reviewer];
        own.draft.trial = !pays;
        own.draft.proposals.push(proposal);
        own.drafters[by].asking.gained(kept.gain);
        if pays { rows } else { first_row(rows.len()) }
    }

    /// The rows after which a child is expected to pay that is better than those that are there,
    /// and what they gain: by one forward together, or by going on after the best of them.
    fn better_children(
        &self,
        state: &DraftState<'_>,
        growing: &GrowingTree<'_>,
        proposal: &Shadow,
        kept: &[bool],
    ) -> (Vec<bool>, f64) {
        let (reviewer, level) = (growing.reviewer.0, growing.drafter.0);
        let own = &self.reviewers[reviewer];
        let stated = &own.drafters[proposal.drafter.0].stated;
        let next = &own.drafters[level].next;
        let tree = growing.proposed.tree();
        let survival = own.draft.survival;
        let mut paths = proposal.path_probabilities(|said, depth| stated.estimate(said, depth));
        paths.iter_mut().for_each(|path| *path *= survival);
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
            let reached = at.map_or(survival, |node| paths[node]);
            let depth = state.depth + at.map_or(0, |node| tree.depth(node) + 1);
            let there = tree.children(at).filter(|&child| kept[child]);
            let there: f64 = there.map(|child| paths[child]).sum();
            let better = reached * next.estimate(None, depth) - there - row;
            rows[place] = better > 0.0;
            together += better.max(0.0);
            let going_on = self.balance(reviewer, level, reached, Tip { depth, nodes });
            if going_on - behind[place] > alone {
                (alone, best) = (going_on - behind[place], place);
            }
        }
        rows[best] |= alone > 0.0;
        let price = self.scoring_price(reviewer, level, &rows);
        (rows, (together - price).max(alone))
    }

    /// What it costs that a neural drafter scores these rows, in tokens.
    fn scoring_price(&self, reviewer: usize, level: usize, rows: &[bool]) -> f64 {
        let scored = rows.iter().filter(|&&row| row).count();
        let forward = self.reviewers[level].forward_of(scored.max(1) as f64);
        self.reviewers[reviewer].gain() * self.token_cost(reviewer, level) * forward
    }

    /// Learns what a forward cost by which a neural drafter grows a tree.
    fn learn_growth(&mut self, growing: &GrowingTree<'_>, forward: ForwardCost) {
        let (drafter, fixed) = (growing.drafter.0, self.assumed.fixed);
        let answered = growing.answered.iter().filter(|&&it| it).count();
        let usual = forward.is_usual(answered.saturating_sub(1));
        let own = &mut self.reviewers[drafter];
        own.turn.has(forward.time.as_secs_f64());
        own.share(&forward);
        own.learn_reading(&forward, answered.saturating_sub(1));
        own.learn_forward(&forward, usual, fixed);
        if !usual {
            for level in &mut self.reviewers[..drafter] {
                level.draft.unusual = true;
            }
        }
    }

    /// After how many tokens of a chain one of the neural drafters that are `taken` goes on best,
    /// and what one gains without the chain. `reached` are the probabilities of the text, then of
    /// each token.
    fn best_handover(
        &self,
        reviewer: usize,
        at: Tip,
        reached: &[f64],
        price: impl Fn(usize) -> f64,
        taken: impl Fn(usize) -> bool + Copy,
    ) -> (Option<Handover>, f64) {
        let (mut best, mut tokens, mut without): (Option<Handover>, _, _) = (None, 0.0, 0.0);
        for (length, &survival) in reached.iter().enumerate() {
            tokens += if length > 0 { survival } else { 0.0 };
            let next = self.best_neural(reviewer, survival, at.after(length), taken);
            let Some((drafter, next)) = next.filter(|(_, next)| *next > 0.0) else {
                break;
            };
            let balance = tokens - price(length) + next;
            without = if length == 0 { next } else { without };
            if best.as_ref().is_none_or(|best| balance > best.balance) {
                best = Some(Handover {
                    length,
                    drafter,
                    balance,
                });
            }
        }
        (best, without)
    }

    /// Learns what the forward of a review cost, and the rate.
    fn learn_costs(&mut self, outcome: &Outcome<'_>) {
        let reviewer = outcome.reviewer.0;
        let usual = outcome.has_usual_rows();
        let seconds = outcome.forward.time.as_secs_f64();
        let own = &mut self.reviewers[reviewer];
        if reviewer > 0 {
            own.share(&outcome.forward);
        }
        own.learn_reading(&outcome.forward, outcome.draft.len());
        own.learn_forward(&outcome.forward, usual, self.assumed.fixed);
        let drafting: f64 = outcome
            .turns
            .iter()
            .map(|turn| turn.time.as_secs_f64())
            .sum();
        for turn in outcome.turns {
            let drafter = &mut self.reviewers[turn.turn.drafter.0];
            drafter.turn.ends(turn.time.as_secs_f64());
        }
        // The target drafts for nobody.
        if reviewer > 0 {
            self.reviewers[reviewer].turn.has(seconds + drafting);
        }
        let one = self.forward(reviewer);
        let spent = if seconds > 0.0 {
            self.forward_time(outcome) + drafting / one
        } else {
            self.forward_time(outcome) + self.assumed_drafting(outcome)
        };
        let own = &mut self.reviewers[reviewer];
        own.reviews += 1;
        if usual && !own.draft.unusual {
            own.learn_rate((outcome.accepted.len() + 1) as f64, spent);
        }
        if !usual {
            for level in &mut self.reviewers[..reviewer] {
                level.draft.unusual = true;
            }
        }
    }

    /// This text's part of the forward of a review, in steps of plain decoding.
    fn forward_time(&self, outcome: &Outcome<'_>) -> f64 {
        let own = &self.reviewers[outcome.reviewer.0];
        let alone = (outcome.draft.len() + 1) as f64;
        let rows_of_each = outcome
            .forward
            .shared
            .map_or(alone, |all| all.rows as f64 / all.texts.max(1) as f64);
        own.forward_of(rows_of_each)
    }

    /// What drafting took that was not measured, in steps of plain decoding.
    fn assumed_drafting(&self, outcome: &Outcome<'_>) -> f64 {
        let reviewer = outcome.reviewer.0;
        let neural = outcome
            .turns
            .iter()
            .map(|turn| (turn, self.grown_by(reviewer, turn.turn.drafter.0)))
            .filter(|(_, drafter)| self.is_neural(*drafter));
        neural
            .map(|(turn, drafter)| turn.path.len() as f64 * self.token_cost(reviewer, drafter))
            .sum()
    }

    /// Learns how long statistical drafters took, and takes what they took in vain from the time
    /// for trying them.
    fn learn_questions(&mut self, outcome: &Outcome<'_>) {
        let reviewer = outcome.reviewer.0;
        let one = self.forward(reviewer);
        for turn in outcome.turns {
            let drafter = LevelId(self.grown_by(reviewer, turn.turn.drafter.0));
            if self.is_neural(drafter.0) {
                continue;
            }
            let spent = turn.time.as_secs_f64() / one;
            let proposer = |node: &&NodeId| outcome.draft.proposer(**node) == drafter;
            let kept = outcome.accepted.iter().filter(proposer).count();
            let paid = self.pays(reviewer, drafter.0);
            let own = &mut self.reviewers[reviewer];
            let asking = &mut own.drafters[drafter.0].asking;
            asking.took(turn.time.as_secs_f64());
            if !paid {
                let saved = kept as f64 / own.gain();
                own.trials -= (spent - saved).max(0.0);
            }
        }
    }

    /// Learns what neural drafters will have to read of the text that the target added to.
    fn learn_text(&mut self, outcome: &Outcome<'_>) {
        let tokens = outcome.accepted.len() + 1;
        for level in &mut self.reviewers[1..] {
            level.reading.grow(tokens);
        }
    }

    fn learn_acceptance(&mut self, outcome: &Outcome<'_>) {
        let judged = self.pending.take(outcome);
        let one = self.forward(outcome.reviewer.0);
        let own = &mut self.reviewers[outcome.reviewer.0];
        own.judge_trial(outcome, one);
        let tell = &self.on_statement;
        for (said, accepted) in judged {
            let DrafterState { stated, next, .. } = &mut own.drafters[said.drafter.0];
            let of = (outcome.reviewer, said.drafter);
            tell.judge(of, stated, (said.probability, said.position), accepted);
            next.learn(None, said.position, accepted);
        }
        let levels = &self.levels;
        for proposal in std::mem::take(&mut own.draft.proposals) {
            let DrafterState { stated, next, .. } = &mut own.drafters[proposal.drafter.0];
            let of = (outcome.reviewer, proposal.drafter);
            proposal.compare(outcome, |probability, depth, accepted| {
                tell.judge(of, stated, (probability, depth), accepted);
            });
            if levels[proposal.drafter.0].is_neural {
                proposal.compare_places(outcome, |depth, stayed| next.learn(None, depth, stayed));
            }
        }
        let branched = |turn: &&TurnRecord| turn.turn.nodes > LONGEST;
        for turn in outcome.turns.iter().filter(branched) {
            own.learn_branches(outcome, turn);
        }
    }
}

impl Default for OnlineSchedule {
    fn default() -> Self {
        Self::new(AssumedCosts::default())
    }
}

impl ReviewerState {
    /// The turn of the neural drafter that was chosen: one token if it is a trial, and branches as
    /// far as recent ones paid.
    fn neural_turn(&self, level: usize, state: &DraftState<'_>) -> Turn {
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
    fn learn_rate(&mut self, tokens: f64, spent: f64) {
        self.rate.learn(tokens, spent, self.texts);
        self.trials = (self.trials + TRIAL_SHARE * spent).min(TRIALS);
    }

    /// Learns which nodes beside the main path of a neural drafter's turn were accepted.
    fn learn_branches(&mut self, outcome: &Outcome<'_>, turn: &TurnRecord) {
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

impl DrafterState {
    /// Asks for more nodes next time if more than half of those that it asked for were kept, and
    /// for fewer if they were not.
    fn ask_by(&mut self, kept: usize) {
        let next = match (2 * kept).cmp(&self.ask) {
            Ordering::Greater => 2 * self.ask,
            _ => (3 * self.ask / 4).max(2 * kept),
        };
        self.ask = next.clamp(FEWEST, LONGEST);
    }

    fn new(stated: Acceptance) -> Self {
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

impl Schedule for OnlineSchedule {
    fn prepare(&mut self, levels: &[LevelSpec<'_>]) -> Result<Plan> {
        self.levels = LevelKind::of(levels);
        self.begin_anew(false);
        Ok(Plan::new(levels.len()).with_want(Want::GATHERED))
    }

    fn begin(&mut self, text: &NewText) {
        if text.is_drawn || self.is_untimed {
            // A text whose samples depend on what is drafted has no times; the next one has.
            self.begin_anew(text.is_drawn);
        }
        let drafters = self.reviewers.iter_mut().flat_map(|own| &mut own.drafters);
        for drafter in drafters {
            drafter.stated.begin(text.temperature);
            drafter.next.begin(text.temperature);
        }
    }

    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        let reviewer = reviewer.0;
        if let Some(partner) = self.levels[reviewer].partner {
            return self.partner_turn(reviewer, partner, state);
        }
        if state.turns.is_empty() {
            if reviewer == 0 {
                self.reviewers
                    .iter_mut()
                    .for_each(|own| own.texts = state.texts);
            }
            let own = &mut self.reviewers[reviewer];
            own.draft = Progress::new(reviewer);
            own.costs.follow(state.context);
            if reviewer == 0 {
                for learner in &mut self.learners {
                    (learner.declined, learner.asked) = (false, false);
                }
            }
        }
        if state.ended || state.depth >= state.budget.depth || state.nodes >= state.budget.nodes {
            return None;
        }
        if self.reviewers[reviewer].draft.tree.is_some() {
            return None;
        }
        let turn = self.tree_turn(reviewer, state);
        let turn = turn.or_else(|| self.statistical_turn(reviewer, state));
        turn.or_else(|| self.neural_turn(reviewer, state))
    }

    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        self.pending.note(drafted);
        let (reviewer, drafter) = (drafted.reviewer.0, drafted.drafter.0);
        let own = &mut self.reviewers[reviewer];
        let state = &own.drafters[drafter];
        own.draft.survival *= state.stated.estimate(drafted.probability, drafted.position);
        let (survival, trial) = (own.draft.survival, own.draft.trial);
        let tokens = drafted.position + 1;
        let tip = Tip {
            depth: tokens,
            nodes: tokens,
        };
        trial || self.balance(reviewer, drafter, survival, tip) <= 0.0
    }

    fn trim(
        &mut self,
        reviewer: LevelId,
        drafter: LevelId,
        state: &DraftState<'_>,
        proposed: &ScoredTree,
    ) -> Option<Vec<bool>> {
        let drafter = LevelId(self.grown_by(reviewer.0, drafter.0));
        let mut proposal = Shadow::new(drafter, state, proposed);
        let neural = self.is_neural(drafter.0);
        let Kept {
            nodes: mut keep,
            survival,
            gain,
            offer,
            handed_over,
        } = self.worthwhile(reviewer.0, state, &proposal);
        if let Some((level, gain)) = offer.filter(|_| reviewer == LevelId::TARGET) {
            self.reviewers[level].reading.offer(gain);
        }
        let own = &mut self.reviewers[reviewer.0];
        own.draft.survival *= survival;
        own.draft.handed_over |= handed_over;
        if let Some(first) = keep.first_mut().filter(|_| neural && own.draft.trial) {
            *first = true;
        }
        proposal.drafted.clone_from(&keep);
        proposal.answered = own.draft.answered.clone().filter(|_| neural);
        own.draft.proposals.push(proposal);
        let kept = keep.iter().filter(|&&kept| kept).count();
        let own = &mut own.drafters[drafter.0];
        own.asking.gained(gain);
        own.ask_by(kept);
        Some(keep)
    }

    fn expand(&mut self, state: &DraftState<'_>, growing: &GrowingTree<'_>) -> Option<Vec<bool>> {
        if let Some(forward) = growing.forward {
            self.learn_growth(growing, forward);
            let own = &mut self.reviewers[growing.reviewer.0];
            own.draft.answered = Some(growing.answered.to_vec());
        }
        Some(self.worth_scoring(state, growing))
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.learn_acceptance(outcome);
        self.learn_questions(outcome);
        self.learn_costs(outcome);
        if outcome.reviewer == LevelId::TARGET {
            self.learn_text(outcome);
        }
    }

    fn rests(&self, drafter: LevelId) -> bool {
        let learner = self.learners.get(drafter.0);
        learner.is_some_and(|learner| learner.declined && !learner.asked)
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

/// The row after the context alone.
fn first_row(rows: usize) -> Vec<bool> {
    (0..rows).map(|row| row == 0).collect()
}

/// How many nodes, the most probable first, gain most over their price, and what they gain.
fn best_count(
    probabilities: impl Iterator<Item = f64>,
    price: impl Fn(usize) -> f64,
) -> (f64, usize) {
    let (mut best, mut kept, mut gain) = (0.0, 0, 0.0);
    for (count, probability) in (1..).zip(probabilities) {
        gain += probability;
        let balance = gain - price(count);
        if balance > best {
            (best, kept) = (balance, count);
        }
    }
    (best, kept)
}
