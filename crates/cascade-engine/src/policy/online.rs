//! The online scheduler: one price for every drafted token.

use std::cmp::Ordering;
use std::time::Duration;

use cascade_core::{LevelId, NodeId, ScoredTree, Want};

use super::acceptance::Acceptance;
use super::asking::{Asking, Lately};
use super::costs::Costs;
use super::pending::Pending;
use super::prices::{Companies, Company, Prices, SharedPrices};
use super::reading::Reading;
use super::shadow::Shadow;
use super::statement::OnStatement;
use super::{
    DraftState, DraftedToken, ForwardCost, GrowingTree, NewText, Outcome, Schedule, Turn,
    TurnRecord, TurnStart,
};
use crate::{ForwardTimes, Role, RowTimes};

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
///   pay, and grows while what one more forward is expected to add does.
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
    shared: Vec<Option<SharedPrices>>,
    roles: Vec<Role>,
    /// The state of each level as a reviewer: the target, then each drafter.
    reviewers: Vec<ReviewerState>,
    pending: Pending,
    /// What each statistical drafter does in a step, by level.
    learners: Vec<Learner>,
    /// Whether times are withheld in this text.
    is_untimed: bool,
    on_statement: OnStatement,
}

/// What a statistical drafter does in a step of the target.
#[derive(Clone, Copy, Debug, Default)]
struct Learner {
    /// How long it takes to learn from a step.
    learning: Lately,
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
/// The longest path of a statistical drafter's tree.
const DEEPEST: usize = 32;
/// Nodes that are asked of a statistical drafter at least, and at first.
const FEWEST: usize = 4;
const FIRST: usize = 2;
/// Rows over which the price of one more is taken.
const AHEAD: f64 = 4.0;
/// How much of what became of branches before a step counts after it.
const KEEP_BESIDE: f64 = 0.985;
/// Share of the time that trying again may cost, what it may cost at first, and what is saved up at
/// most, in forwards of the target.
const TRIAL_SHARE: f64 = 0.007;
const TRIALS: f64 = 1.0;
const MOST_TRIALS: f64 = 2.0;
/// Reviews after which a drafter is tried again beside one that pays, at least.
const TRIALS_APART: u64 = 16;

/// What is known of a reviewer and those who draft for it.
#[derive(Clone, Debug)]
struct ReviewerState {
    /// What is known of the reviewer's forwards; of all texts, if they are shared.
    prices: Prices,
    shared: Option<SharedPrices>,
    companies: Companies,
    /// The depth at which the last forward drafted, if the reviewer is a drafter.
    depth: usize,
    /// What the reviewer has to read before it drafts, if it is a neural drafter.
    reading: Reading,
    turn: DraftingTurn,
    drafters: Vec<DrafterState>,
    draft: Progress,
    /// Time saved up for trying drafters that do not pay, in forwards of the target.
    trials: f64,
    /// Reviews so far.
    reviews: u64,
    /// Whether times are withheld.
    untimed: bool,
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
    /// Takes what other texts have learned since.
    fn refresh(&mut self) {
        if let Some(shared) = self.shared.as_ref().filter(|_| !self.untimed) {
            self.prices = shared.get(|| self.prices.clone());
        }
    }

    /// Learns for all texts, where times are known.
    fn learn(&mut self, learn: impl FnOnce(&mut Prices)) {
        match self.shared.as_ref().filter(|_| !self.untimed) {
            Some(shared) => shared.change(&mut self.prices, learn),
            None => learn(&mut self.prices),
        }
    }

    /// Learns who else had rows in a forward, and, where times are known and costs not `fixed`, how
    /// busy the machine is.
    fn learn_forward(&mut self, forward: &ForwardCost, usual: bool, fixed: bool) {
        let ForwardCost { rows, shared, .. } = *forward;
        let seconds = forward.time.as_secs_f64();
        if let Some(shared) = shared.filter(|shared| rows <= shared.rows || shared.reads_prompt) {
            self.companies.learn(self.depth, shared, rows);
        }
        if fixed || seconds <= 0.0 || !usual {
            return;
        }
        let (rows, seconds) = shared.map_or((rows, seconds), |shared| {
            (shared.rows, shared.time.as_secs_f64())
        });
        let number = shared.map(|shared| shared.number);
        self.learn(|prices| prices.learn(number, rows, seconds));
    }

    /// Learns how many rows of a drafter's forward were of text, beside those of a draft.
    fn learn_reading(&mut self, forward: &ForwardCost, drafted: usize) {
        let rows = forward.rows.saturating_sub(drafted);
        // Where times are withheld, nothing may depend on what a cache has.
        if !forward.time.is_zero() {
            self.reading.read(rows);
        }
    }

    /// Whether it is not known yet who else has rows in its forwards, as after the next one: what
    /// pays for one text does not for many.
    fn waits_for_company(&self) -> bool {
        self.shared.is_some() && !self.untimed && self.companies.are_new()
    }

    /// Who else has rows in its forwards.
    fn company(&self) -> Company {
        self.companies.at(self.depth)
    }

    /// A step of plain decoding, in forwards of one row: a forward without drafts, divided among
    /// its texts. The unit of all prices.
    fn plain_step(&self) -> f64 {
        self.part(self.company())
    }

    /// What this text pays of a forward with one row of each text, in forwards of one row.
    fn part(&self, company: Company) -> f64 {
        self.prices.costs.at(company.texts) / company.texts
    }

    /// A forward in which this text has so many rows, in steps of plain decoding.
    fn forward_of(&self, rows: usize) -> f64 {
        self.prices.costs.at(self.company().rows + rows as f64) / self.plain_step()
    }

    /// What so many drafted rows of this text add to a forward in which it has `rows`, in steps of
    /// plain decoding, if all texts draft alike: an equal part of what they add together.
    fn added(&self, rows: usize, drafted: usize) -> f64 {
        let texts = self.company().texts;
        let costs = |rows: usize| self.prices.costs.at(texts * rows as f64);
        (costs(rows + drafted) - costs(rows)) / costs(1)
    }

    /// What one more row adds to that.
    fn one_more(&self, rows: usize) -> f64 {
        let rows = self.company().rows + rows as f64;
        let costs = |rows: f64| self.prices.costs.at(rows);
        // Over the next few: kernels take rows by four or eight.
        (costs(rows + AHEAD) - costs(rows)) / AHEAD / self.plain_step()
    }

    /// What it reads for a step, in steps of plain decoding.
    fn reading_cost(&self) -> f64 {
        let rows = self.company().rows + 1.0;
        let costs = |rows: f64| self.prices.costs.at(rows);
        (costs(rows + self.reading.rows()) - costs(rows)) / self.plain_step()
    }

    /// How many times the tokens of plain decoding all texts earn: ρ.
    fn gain(&self) -> f64 {
        self.prices.rate.gain()
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
        }
    }
}

impl OnlineSchedule {
    /// A schedule that knows nothing yet.
    pub fn new(assumed: AssumedCosts) -> Self {
        Self {
            assumed,
            shared: Vec::new(),
            roles: Vec::new(),
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

    /// Shares prices with the other texts that use the same models: `prices` has those of each
    /// level that computes several texts in one forward, the target first.
    pub fn sharing(self, prices: Vec<Option<SharedPrices>>) -> Self {
        Self {
            shared: prices,
            ..self
        }
    }

    /// Forgets everything, but not what is known to other texts.
    fn begin_anew(&mut self, untimed: bool) {
        self.is_untimed = untimed;
        self.pending = Pending::default();
        self.learners = vec![Learner::default(); self.roles.len()];
        let drafter = |role: &Role| match role {
            Role::Statistical => DrafterState::new(Acceptance::of_counts(STATISTICAL_PRIOR)),
            _ => DrafterState::new(Acceptance::new(NEURAL_PRIOR)),
        };
        let drafters: Vec<_> = self.roles.iter().map(drafter).collect();
        let reviewer = |level| ReviewerState {
            prices: Prices::new(self.assumed.of_level(level, untimed)),
            shared: self.shared.get(level).cloned().flatten(),
            companies: Companies::default(),
            depth: 0,
            reading: Reading::default(),
            turn: DraftingTurn::default(),
            drafters: drafters.clone(),
            draft: Progress::new(level),
            trials: TRIALS,
            reviews: 0,
            untimed,
        };
        self.reviewers = (0..self.roles.len()).map(reviewer).collect();
        for drafter in 1..self.roles.len() {
            let expected = self.expected_rate(drafter);
            self.reviewers[drafter].prices.rate.begin_with(expected);
        }
        self.reviewers.iter_mut().for_each(ReviewerState::refresh);
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
                tokens / (own.forward_of(length + 1) + length as f64 * token)
            })
        });
        rates.fold(1.0, f64::max)
    }

    fn is_neural(&self, level: usize) -> bool {
        self.roles.get(level) == Some(&Role::Drafter)
    }

    /// The neural drafters below a level, largest first.
    fn neural_below(&self, level: usize) -> impl Iterator<Item = usize> + '_ {
        (level + 1..self.roles.len()).filter(|&level| self.is_neural(level))
    }

    /// A forward of a level without a draft, or this text's part of it: in seconds if the target
    /// was measured, else in its forwards.
    fn forward(&self, level: usize) -> f64 {
        self.forward_at(level, self.reviewers[level].depth)
    }

    /// A forward of a level without a draft, for a drafter that drafts at this depth.
    fn forward_at(&self, level: usize, depth: usize) -> f64 {
        let measured = |level: usize, depth: usize| {
            let own = &self.reviewers[level];
            // A drafter is asked by as many texts as share the target, until more is known.
            let known = if own.companies.are_new() {
                self.reviewers[0].company()
            } else {
                own.companies.at(depth)
            };
            own.prices.costs.one().map(|one| one * own.part(known))
        };
        let of_target = measured(0, 0);
        let target = of_target.unwrap_or(1.0);
        if level == 0 {
            return target;
        }
        let assumed = self.assumed.drafters.get(level - 1).copied();
        let seconds = measured(level, depth).filter(|_| of_target.is_some());
        seconds.unwrap_or(assumed.unwrap_or(DRAFTER) * target)
    }

    /// What a token of a neural drafter at this depth costs, in forwards of the reviewer, its row
    /// not included: the drafter's forward, and what its turns take beside forwards. Levels below
    /// may give it several tokens in a forward.
    fn token_cost(&self, reviewer: usize, drafter: usize, depth: usize) -> f64 {
        self.token_costs(reviewer, drafter)(depth)
    }

    /// What a token of a neural drafter costs, as [`token_cost`](Self::token_cost), by depth.
    fn token_costs(&self, reviewer: usize, drafter: usize) -> impl Fn(usize) -> f64 + '_ {
        let own = &self.reviewers[drafter];
        let unit = own.gain() * self.forward(reviewer);
        let beside = match self.reviewers[0].prices.costs.one() {
            Some(_) if !self.assumed.fixed => own.turn.beside.seconds(),
            // Costs are kept, or nothing is in seconds yet.
            _ => 0.0,
        };
        move |depth| (self.forward_at(drafter, depth) + beside) / unit
    }

    /// Expected tokens less their price, of the best length of a neural drafter that goes on after
    /// `depth` tokens of a draft with so many nodes, if they survive with this probability.
    fn balance(&self, reviewer: usize, drafter: usize, survival: f64, at: Tip) -> f64 {
        let own = &self.reviewers[reviewer];
        let acceptance = &own.drafters[drafter].next;
        let token = self.token_costs(reviewer, drafter);
        let rate = own.gain();
        let rows = at.nodes + 1;
        let (mut survival, mut tokens, mut drafting) = (survival, 0.0, 0.0);
        let mut best = f64::NEG_INFINITY;
        for ahead in 0..HORIZON {
            survival *= acceptance.estimate(None, at.depth + ahead);
            tokens += survival;
            drafting += token(at.depth + ahead);
            let price = drafting + own.added(rows, ahead + 1);
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
        let learning = self.learners[drafter].learning.seconds();
        (asking.seconds() + learning) / self.forward(reviewer)
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
        let mut levels = asked.unwrap_or(reviewer) + 1..self.roles.len();
        let level =
            levels.find(|&level| !self.is_neural(level) && self.is_asked(reviewer, level))?;
        let left = state.budget.nodes.saturating_sub(state.nodes);
        let nodes = self.reviewers[reviewer].drafters[level].ask.min(left);
        let depth = state.budget.depth.saturating_sub(state.depth);
        // One node less than the tree has, or it would be a chain.
        let tokens = nodes.saturating_sub(1).clamp(1, DEEPEST).min(depth);
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
            token: self.token_cost(reviewer, drafter, state.depth),
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
        // What a neural drafter drafted was paid for.
        let caution = if self.is_neural(proposal.drafter.0) {
            1.0
        } else {
            own.company().caution()
        };
        let price = |nodes: usize| {
            let rows = state.nodes + 1;
            caution * own.gain() * own.added(rows, nodes)
        };
        let mut order: Vec<NodeId> = (0..paths.len()).collect();
        // Ancestors come first: they are no less probable, and were pushed earlier.
        order.sort_by(|&a, &b| paths[b].total_cmp(&paths[a]));
        let (best, count) = best_count(order.iter().map(|&node| survival * paths[node]), price);
        let chain = proposal.first_children();
        let along = chain.iter().map(|&node| survival * paths[node]);
        let along: Vec<f64> = std::iter::once(survival).chain(along).collect();
        let at = Tip::of(state);
        let any = self.best_handover(reviewer, at, &along, price, |_| true);
        let offer = any
            .0
            .as_ref()
            .map(|offer| (offer.drafter, offer.balance - best));
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

    /// Finds the nodes of a neural drafter's tree that are worth another forward: those that pay
    /// themselves and whose best child will, if all these children are worth the forward.
    fn worth_children(
        &self,
        reviewer: usize,
        state: &DraftState<'_>,
        growing: &GrowingTree<'_>,
    ) -> Vec<bool> {
        let own = &self.reviewers[reviewer];
        let tree = growing.proposed.tree();
        let mut open = vec![false; tree.len()];
        if own.draft.trial {
            return open;
        }
        let proposal = Shadow::new(growing.drafter, state, growing.proposed);
        let kept = self.worthwhile(reviewer, state, &proposal).nodes;
        let drafter = &own.drafters[growing.drafter.0];
        let estimate = |stated, depth| drafter.stated.estimate(stated, depth);
        let paths = proposal.path_probabilities(estimate);
        let nodes = kept.iter().filter(|&&kept| kept).count();
        let rate = own.gain();
        let row = rate * own.one_more(state.nodes + nodes + 1);
        let mut gain = 0.0;
        for node in (0..tree.len()).filter(|&node| kept[node] && !growing.answered[node]) {
            let next = drafter
                .next
                .estimate(None, state.depth + tree.depth(node) + 1);
            let child = own.draft.survival * paths[node] * next - row;
            open[node] = child > 0.0;
            gain += child.max(0.0);
        }
        let rows = open.iter().filter(|&&open| open).count();
        let forward = self.reviewers[growing.drafter.0].forward_of(rows.max(1));
        let depth = state.depth + tree.height();
        let price = rate * self.token_cost(reviewer, growing.drafter.0, depth) * forward;
        if gain > price {
            open
        } else {
            vec![false; tree.len()]
        }
    }

    /// Learns what a forward cost by which a neural drafter grows a tree.
    fn learn_growth(&mut self, state: &DraftState<'_>, growing: &GrowingTree<'_>) {
        let (drafter, fixed) = (growing.drafter.0, self.assumed.fixed);
        let height = growing.proposed.tree().height();
        let answered = growing
            .answered
            .iter()
            .filter(|&&answered| answered)
            .count();
        let usual = growing.forward.is_usual(answered);
        let own = &mut self.reviewers[drafter];
        own.depth = state.depth + height.saturating_sub(1);
        own.turn.has(growing.forward.time.as_secs_f64());
        own.learn_reading(&growing.forward, answered);
        own.learn_forward(&growing.forward, usual, fixed);
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
        own.untimed = seconds <= 0.0;
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
        own.forward_of(outcome.draft.len() + 1) / own.company().texts
    }

    /// What drafting took that was not measured, in steps of plain decoding.
    fn assumed_drafting(&self, outcome: &Outcome<'_>) -> f64 {
        let reviewer = outcome.reviewer.0;
        let neural = outcome
            .turns
            .iter()
            .filter(|turn| self.is_neural(turn.turn.drafter.0));
        neural
            .map(|turn| turn.path.len() as f64 * self.token_cost(reviewer, turn.turn.drafter.0, 0))
            .sum()
    }

    /// Learns how long statistical drafters took, and takes what they took in vain from the time
    /// for trying them.
    fn learn_questions(&mut self, outcome: &Outcome<'_>) {
        let reviewer = outcome.reviewer.0;
        let one = self.forward(reviewer);
        for turn in outcome.turns {
            let drafter = turn.turn.drafter;
            if self.is_neural(drafter.0) {
                continue;
            }
            let learning = self.learners[drafter.0].learning.seconds();
            let spent = (turn.time.as_secs_f64() + learning) / one;
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
        let roles = &self.roles;
        for proposal in std::mem::take(&mut own.draft.proposals) {
            let DrafterState { stated, next, .. } = &mut own.drafters[proposal.drafter.0];
            let of = (outcome.reviewer, proposal.drafter);
            proposal.compare(outcome, |probability, depth, accepted| {
                tell.judge(of, stated, (probability, depth), accepted);
            });
            if roles.get(proposal.drafter.0) == Some(&Role::Drafter) {
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
        let texts = self.company().texts;
        self.learn(|prices| prices.rate.learn(tokens, spent, texts));
        self.trials = (self.trials + TRIAL_SHARE * spent).min(MOST_TRIALS);
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
            KEEP_BESIDE * sums.0 + drafted as f64,
            KEEP_BESIDE * sums.1 + accepted as f64,
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
            ask: FIRST,
            asking: Asking::new(),
            rests_until: 0,
        }
    }
}

impl Schedule for OnlineSchedule {
    fn prepare(&mut self, roles: &[Role]) {
        self.roles = roles.to_vec();
        self.begin_anew(false);
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
        if state.turns.is_empty() {
            let own = &mut self.reviewers[reviewer];
            own.draft = Progress::new(reviewer);
            own.refresh();
            own.prices.costs.follow(state.context);
            if reviewer == 0 {
                for learner in &mut self.learners {
                    (learner.declined, learner.asked) = (false, false);
                }
            }
        }
        if state.ended || state.depth >= state.budget.depth || state.nodes >= state.budget.nodes {
            return None;
        }
        if self.reviewers[reviewer].waits_for_company() {
            return None;
        }
        let statistical = self.statistical_turn(reviewer, state);
        statistical.or_else(|| self.neural_turn(reviewer, state))
    }

    fn want(&self) -> Want {
        Want::GATHERED
    }

    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        self.pending.note(drafted);
        let (reviewer, drafter) = (drafted.reviewer.0, drafted.drafter.0);
        self.reviewers[drafter].depth = drafted.position;
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
        own.draft.proposals.push(proposal);
        let kept = keep.iter().filter(|&&kept| kept).count();
        let own = &mut own.drafters[drafter.0];
        own.asking.gained(gain);
        own.ask_by(kept);
        Some(keep)
    }

    fn expand(&mut self, state: &DraftState<'_>, growing: &GrowingTree<'_>) -> Option<Vec<bool>> {
        self.learn_growth(state, growing);
        Some(self.worth_children(growing.reviewer.0, state, growing))
    }

    fn may_pair(&self, _reviewer: LevelId, _drafter: LevelId) -> bool {
        true
    }

    fn plans_joint_drafts(&self) -> bool {
        false
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

    fn learned(&mut self, drafter: LevelId, time: Duration) {
        if let Some(learner) = self.learners.get_mut(drafter.0) {
            learner.learning.learn(time.as_secs_f64());
        }
    }
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
