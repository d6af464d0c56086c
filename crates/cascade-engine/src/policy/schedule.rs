//! Schedules: who drafts next for a reviewer, and how much.

use std::time::Duration;

use cascade_core::{Budget, LevelId, NodeId, ScoredTree, Want};

use super::{DraftedToken, ForwardCost, Outcome};
use crate::{LevelSpec, Result};

/// Decides, for the draft that a reviewer is about to verify, which drafter adds to it next and how
/// many tokens.
///
/// The engine calls it repeatedly while a draft grows, for the target and, in the vertical cascade,
/// for every neural drafter that reviews smaller ones. The budget of a draft, the positions of the
/// models and the end of the text bound what a turn adds, whatever the schedule requests.
///
/// # Exactness
/// A schedule's decisions may depend on everything it is given and has observed: tokens that are
/// already in the draft, and outcomes of earlier reviews. It cannot see how the reviewer will
/// decide on the current draft, so the output stays the target's.
///
/// Neither greedy nor [coupled](cascade_verify::coupled) texts depend on what is drafted. What a
/// seed draws by [another rule](crate::Rule::DRAWN) does. So that it depends on nothing else,
/// it forgets what it learned before each generation by such a rule ([`begin`](Self::begin)), and
/// outcomes have no times in one.
///
/// There is one more condition for rules that consider siblings in another order than they were
/// drawn in ([`ReviewRule::reorders`](crate::ReviewRule::reorders)): the number of candidates of a
/// node must not depend on which tokens they are. So whether there is another turn from the root,
/// and the number of its [nodes](Turn::nodes), must not depend on the tokens of earlier turns.
pub trait Schedule: Send {
    /// The next turn in the draft for `reviewer`; `None` if the draft is complete.
    ///
    /// The turn's drafter must be a smaller level than `reviewer`. After more consecutive turns
    /// without a new token than there are levels below the reviewer, the engine considers the draft
    /// complete.
    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn>;

    /// Takes the levels that it is for, the target first, and says what it does with them. Called
    /// before anything else. By default any level may draft for any larger one.
    ///
    /// # Errors
    /// If it does not fit them. Never fails by default.
    fn prepare(&mut self, levels: &[LevelSpec<'_>]) -> Result<Plan> {
        Ok(Plan::new(levels.len()))
    }

    /// Whether the turn of a neural drafter ends after this token, which stays in the draft. Asked
    /// beside the drafter's own [`StopRule`](super::StopRule), under the same condition. Never ends
    /// a turn by default.
    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        let _ = drafted;
        false
    }

    /// Which nodes of a statistical drafter's proposal, or of a tree that a neural drafter grew,
    /// are drafted, one entry for each; without its parent a node is not. All that there is room
    /// for (`None`) by default. Such a proposal is determined by the context, so that it may be cut
    /// by its estimates for its nodes.
    fn trim(
        &mut self,
        reviewer: LevelId,
        drafter: LevelId,
        state: &DraftState<'_>,
        proposed: &ScoredTree,
    ) -> Option<Vec<bool>> {
        let _ = (reviewer, drafter, state, proposed);
        None
    }

    /// Which rows of a tree that a neural drafter grows
    /// ([`Expand::MostProbable`](crate::Expand::MostProbable)) it scores in one more forward, so
    /// that there are children after them, one entry for each; only rows that are not
    /// [answered](GrowingTree::answered) count. All that the draft has room for (`None`) by
    /// default. Asked after each of its forwards, and before the first if a statistical drafter
    /// grows the tree with it; afterwards the tree may be cut by [`trim`](Self::trim).
    fn expand(&mut self, state: &DraftState<'_>, growing: &GrowingTree<'_>) -> Option<Vec<bool>> {
        let _ = (state, growing);
        None
    }

    /// Learns from a review, at any level. Does nothing by default.
    fn observe(&mut self, outcome: &Outcome<'_>) {
        let _ = outcome;
    }

    /// Whether a statistical drafter rests in this step: it is then told the text alone, later, and
    /// does not learn from what the target says. Asked once the draft is complete. Never by
    /// default.
    fn rests(&self, drafter: LevelId) -> bool {
        let _ = drafter;
        false
    }

    /// Begins another text. Forgets what it has learned if its samples depend on what is drafted.
    /// Does nothing by default.
    fn begin(&mut self, text: &NewText) {
        let _ = text;
    }
}

impl<S: Schedule + 'static> From<S> for Box<dyn Schedule> {
    fn from(schedule: S) -> Self {
        Box::new(schedule)
    }
}

/// What a schedule does with the levels that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// By reviewer, then by drafter.
    pairs: Vec<Vec<bool>>,
    want: Want,
}

impl Plan {
    /// A plan for so many levels, the target included: any may draft for any larger one, and
    /// nothing but tokens is read of scores.
    pub fn new(levels: usize) -> Self {
        let below = |reviewer| (0..levels).map(|drafter| drafter > reviewer).collect();
        Self {
            pairs: (0..levels).map(below).collect(),
            want: Want::ARGMAX,
        }
    }

    /// Restricts which levels draft for which: `may_pair` is given the reviewer, then the drafter.
    #[must_use]
    pub fn with_pairs(mut self, may_pair: impl Fn(LevelId, LevelId) -> bool) -> Self {
        for (reviewer, drafters) in self.pairs.iter_mut().enumerate() {
            for (drafter, pair) in drafters.iter_mut().enumerate() {
                *pair = *pair && may_pair(LevelId(reviewer), LevelId(drafter));
            }
        }
        self
    }

    /// [`Schedule::stop`] reads this of each row of a neural drafter's scores.
    #[must_use]
    pub fn with_want(self, want: Want) -> Self {
        Self { want, ..self }
    }

    /// Whether `drafter` may ever draft for `reviewer`. Determines which combinations of rules are
    /// checked for exactness, and which drafters are reported as idle.
    pub fn may_pair(&self, reviewer: LevelId, drafter: LevelId) -> bool {
        let drafters = self.pairs.get(reviewer.0);
        drafters.is_some_and(|drafters| drafters.get(drafter.0) == Some(&true))
    }

    /// What is read of each row of a neural drafter's scores.
    pub fn want(&self) -> Want {
        self.want
    }
}

/// A text that is about to be generated.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct NewText {
    /// Whether its samples depend on what is drafted ([rules that draw](crate::Rule::DRAWN)).
    pub is_drawn: bool,
    /// The temperature of sampling; 0 if it is greedy.
    pub temperature: f64,
}

/// A draft in progress, as a schedule sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DraftState<'a> {
    /// Tokens of the context before the draft.
    pub context: usize,
    /// Tokens on the main path so far.
    pub depth: usize,
    /// Nodes so far, branches included.
    pub nodes: usize,
    /// Whether the main path ends the text.
    pub ended: bool,
    /// The budget of the whole draft.
    pub budget: Budget,
    /// Number of levels below the reviewer.
    pub drafters: usize,
    /// Texts that share forwards with this one, itself included ([`Scorer::texts`]); 1 where times
    /// are withheld (see [`Outcome::forward`]).
    ///
    /// [`Scorer::texts`]: cascade_core::Scorer::texts
    pub texts: usize,
    /// The turns so far, in order.
    pub turns: &'a [TurnRecord],
}

/// A tree that a neural drafter grows, as a schedule sees it before another of its forwards.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GrowingTree<'a> {
    /// The level that will review it.
    pub reviewer: LevelId,
    /// The level that grows it.
    pub drafter: LevelId,
    /// All nodes that it was given, with what is said of each.
    pub proposed: &'a ScoredTree,
    /// Whether each row was scored: the one after the context, then those after the nodes.
    pub answered: &'a [bool],
    /// What the last forward cost; `None` before the first. Its time is 0 where times are withheld
    /// (see [`Outcome::forward`]).
    pub forward: Option<ForwardCost>,
}

/// A turn requested from a drafter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The level that drafts.
    pub drafter: LevelId,
    /// Tokens that it should add to the main path. A neural drafter may overshoot, since its review
    /// adds all tokens that it accepts and one of its own.
    pub tokens: usize,
    /// Where it begins.
    pub start: TurnStart,
    /// Nodes that this turn's branches must leave for later turns.
    pub reserved: usize,
    /// Nodes that the turn may add at most. For turns that begin at the root these nodes are
    /// deducted from the draft's budget whether they are used or not (see Exactness of
    /// [`Schedule`]); other turns may use what is left.
    pub nodes: usize,
}

impl Turn {
    /// A turn of so many tokens at the end of the main path.
    pub fn at_tip(drafter: LevelId, tokens: usize, nodes: usize) -> Self {
        Self {
            drafter,
            tokens,
            start: TurnStart::Tip,
            reserved: 0,
            nodes,
        }
    }
}

/// Where a turn begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnStart {
    /// At the end of the main path.
    #[default]
    Tip,
    /// At the root of the draft: the turn's tokens are merged into the prefix tree and become its
    /// main path.
    Root,
}

/// A completed turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnRecord {
    /// The request.
    pub turn: Turn,
    /// The nodes that the turn added to the main path, from the top down.
    pub path: Vec<NodeId>,
    /// Whether a stop rule ended it.
    pub stopped: bool,
    /// Time that it took, and that a statistical drafter took to learn from the steps since its
    /// last one; 0 where times are withheld (see [`Outcome::forward`]).
    pub time: Duration,
}

impl TurnRecord {
    /// Tokens that were requested but not drafted because a stop rule ended the turn.
    pub fn left_by_stop(&self) -> usize {
        if self.stopped {
            self.turn.tokens.saturating_sub(self.path.len())
        } else {
            0
        }
    }
}
