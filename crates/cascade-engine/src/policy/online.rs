//! The online scheduler: one price for every drafted token.

mod assumed;
mod costs;
mod learning;
mod prices;
mod reviewer;
mod shadow;
mod statement;
mod trees;
mod turns;

use std::sync::mpsc::Sender;

use cascade_core::{LevelId, ScoredTree, Want};

use self::costs::Rate;
use self::prices::Tip;
use self::reviewer::{
    DrafterState, NEURAL_PRIOR, Progress, ReviewerState, STATISTICAL_PRIOR, TRIALS,
};
use self::shadow::Shadow;
use super::acceptance::Acceptance;
use super::lately::Lately;
use super::pending::Pending;
use super::{DraftState, DraftedToken, GrowingTree, NewText, Outcome, Plan, Schedule, Turn};
use crate::{LevelSpec, Result};

pub use self::assumed::AssumedCosts;
pub use self::statement::Statement;

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
#[derive(Clone, Debug, Default)]
pub struct OnlineSchedule {
    assumed: AssumedCosts,
    levels: Vec<LevelKind>,
    /// The state of each level as a reviewer: the target, then each drafter.
    reviewers: Vec<ReviewerState>,
    pending: Pending,
    /// Whether each drafter was asked in this step of the target; `None` if nobody considered it.
    asked: Vec<Option<bool>>,
    /// Whether times are withheld in this text.
    is_untimed: bool,
    statements: Option<Sender<Statement>>,
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

impl OnlineSchedule {
    /// A schedule that knows nothing yet.
    pub fn new(assumed: AssumedCosts) -> Self {
        Self {
            assumed,
            ..Self::default()
        }
    }

    /// Sends what became of drafters' statements, of each token that the text reached, to whoever
    /// asks for them.
    pub fn telling(self, statements: Option<Sender<Statement>>) -> Self {
        Self { statements, ..self }
    }

    /// Forgets everything.
    fn begin_anew(&mut self, untimed: bool) {
        self.is_untimed = untimed;
        self.pending = Pending::default();
        self.asked = vec![None; self.levels.len()];
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
            in_turn: 0.0,
            beside: Lately::default(),
            drafters: drafters.clone(),
            draft: Progress::new(level),
            trials: TRIALS,
            reviews: 0,
        };
        self.reviewers = (0..self.levels.len()).map(reviewer).collect();
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
                let all = self.reviewers.iter_mut();
                all.for_each(|own| own.texts = state.texts);
                self.asked.fill(None);
            }
            let own = &mut self.reviewers[reviewer];
            own.draft = Progress::new(reviewer);
            own.costs.follow(state.context);
        }
        let is_full = state.depth >= state.budget.depth || state.nodes >= state.budget.nodes;
        if state.ended || is_full || self.reviewers[reviewer].draft.tree.is_some() {
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
        let tip = Tip::default().after(drafted.position + 1, survival);
        trial || self.balance(reviewer, drafter, tip) <= 0.0
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
        let mut kept = self.worthwhile(reviewer.0, state, &proposal);
        let own = &mut self.reviewers[reviewer.0];
        if let Some(&tip) = proposal.kept_path(|node| kept.nodes[node]).last() {
            own.draft.survival = kept.reached[tip];
        }
        if let Some(first) = kept.nodes.first_mut().filter(|_| neural && own.draft.trial) {
            *first = true;
        }
        proposal.drafted.clone_from(&kept.nodes);
        proposal.answered = own.draft.answered.clone().filter(|_| neural);
        own.draft.proposals.push(proposal);
        let drafted = kept.nodes.iter().filter(|&&is_kept| is_kept).count();
        let own = &mut own.drafters[drafter.0];
        own.gained(kept.gain);
        own.ask_by(drafted);
        Some(kept.nodes)
    }

    fn expand(&mut self, state: &DraftState<'_>, growing: &GrowingTree<'_>) -> Option<Vec<bool>> {
        if let Some(forward) = growing.forward {
            self.learn_growth(growing, forward);
        }
        Some(self.worth_scoring(state, growing))
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.learn_acceptance(outcome);
        self.learn_costs(outcome);
    }

    fn rests(&self, drafter: LevelId) -> bool {
        self.asked.get(drafter.0) == Some(&Some(false))
    }
}
