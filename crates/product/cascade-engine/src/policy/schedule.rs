//! Schedules: who drafts next for a reviewer, and how much.

use cascade_core::{Budget, LevelId, NodeId};

use super::Outcome;
use crate::Result;

/// Decides, for the draft that a reviewer is about to verify, which drafter adds to it next and how
/// many tokens.
///
/// The engine asks again and again while a draft grows, for the target and, in the vertical
/// cascade, for every neural drafter that reviews smaller ones. The budget of a draft, the
/// positions of the models and the end of the text bound what a turn adds, whatever the schedule
/// asks for.
///
/// # Exactness
/// A schedule may decide by everything it is shown and by everything it has observed: tokens that
/// are already in the draft, and outcomes of earlier reviews. It never learns what the reviewer
/// will say of the draft at hand, so the output stays the target's.
///
/// One thing more concerns rules that look at siblings in another order than they were drawn in
/// ([`ReviewRule::reorders`](crate::ReviewRule::reorders)): how many candidates a node has must not
/// depend on which tokens they are. So whether there is another turn from the root, and its
/// [nodes](Turn::nodes), must not depend on the tokens of the turns before it.
pub trait Schedule: Send {
    /// The next turn in the draft for `reviewer`; `None` if the draft is complete.
    ///
    /// The turn's drafter must be a smaller level than `reviewer`. After as many turns without a
    /// new token as there are drafters, the engine takes the draft to be complete.
    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn>;

    /// Whether `drafter` may ever draft for `reviewer`. Decides which combinations of rules are
    /// checked for exactness, and which drafters are reported as idle.
    fn may_pair(&self, reviewer: LevelId, drafter: LevelId) -> bool;

    /// Checks that the schedule is made for so many drafters.
    ///
    /// # Errors
    /// Names both numbers; none by default.
    fn check(&self, drafters: usize) -> Result<()> {
        let _ = drafters;
        Ok(())
    }

    /// Learns from a review, at any level. Does nothing unless implemented.
    fn observe(&mut self, outcome: &Outcome<'_>) {
        let _ = outcome;
    }
}

/// A draft in progress, as a schedule sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DraftState<'a> {
    /// Tokens on the main path so far.
    pub depth: usize,
    /// Nodes so far, branches included.
    pub nodes: usize,
    /// Whether the main path ends the text.
    pub ended: bool,
    /// What the draft may hold in all.
    pub budget: Budget,
    /// Number of levels below the reviewer.
    pub drafters: usize,
    /// The turns so far, in order.
    pub turns: &'a [TurnRecord],
}

/// A request to a drafter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Who drafts.
    pub drafter: LevelId,
    /// Tokens that it should add to the main path. A review may overshoot, since it keeps all that
    /// it accepts and adds a token of its own.
    pub tokens: usize,
    /// Where it begins.
    pub start: TurnStart,
    /// Nodes that branches must leave to the turns after this one.
    pub reserved: usize,
    /// Nodes that the turn may add at most. Turns that begin at the root are granted their nodes
    /// out of the draft's budget whether they use them or not (see [`Schedule`]'s exactness);
    /// others may use what is left.
    pub nodes: usize,
}

/// Where a turn begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnStart {
    /// At the end of the main path.
    #[default]
    Tip,
    /// Where the draft begins: the turn's tokens are merged into the prefix tree and become its
    /// main path.
    Root,
}

/// A turn that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnRecord {
    /// What was asked for.
    pub turn: Turn,
    /// The nodes that the turn added to the main path, from the top down.
    pub path: Vec<NodeId>,
    /// Whether a stop rule ended it.
    pub stopped: bool,
}

impl TurnRecord {
    /// Tokens that were asked for and not drafted because a stop rule ended the turn.
    pub fn left_by_stop(&self) -> usize {
        match self.stopped {
            true => self.turn.tokens.saturating_sub(self.path.len()),
            false => 0,
        }
    }
}

/// Drafters that no draft for the target ever asks, directly or through a reviewer it asks.
/// `reviews` says whether a level reviews at all; a statistical one does not.
pub(crate) fn idle_drafters(
    drafters: usize,
    may_pair: impl Fn(LevelId, LevelId) -> bool,
    reviews: impl Fn(LevelId) -> bool,
) -> Vec<LevelId> {
    let mut drafts = vec![false; drafters + 1];
    let mut reviewing = vec![false; drafters + 1];
    reviewing[0] = true;
    for reviewer in 0..=drafters {
        for drafter in reviewer + 1..=drafters {
            if reviewing[reviewer] && may_pair(LevelId(reviewer), LevelId(drafter)) {
                drafts[drafter] = true;
                reviewing[drafter] |= reviews(LevelId(drafter));
            }
        }
    }
    (1..=drafters)
        .filter(|&level| !drafts[level])
        .map(LevelId)
        .collect()
}
