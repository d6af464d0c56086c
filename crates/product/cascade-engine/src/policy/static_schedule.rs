//! The K matrix as a schedule.

use cascade_core::LevelId;

use super::{DraftState, Schedule, Turn, TurnStart};
use crate::{Error, KMatrix, Placement, Result};

/// The schedule of Cascade Speculative Drafting (Algorithm 1): for each reviewer, every drafter in
/// turn, largest first, each with as many tokens as its entry of the K matrix.
///
/// Placed [sequentially](Placement::Sequential), drafter j drafts until the main path holds
/// `k[r][0] + … + k[r][j]` tokens: a drafter that overshoots leaves fewer to those after it, and
/// one that runs out of proposals leaves more. Tokens that a stop rule leaves undrafted are not
/// passed on to the next drafter. The schedule does not learn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticSchedule {
    k: KMatrix,
    placement: Placement,
}

impl StaticSchedule {
    /// The schedule of `k`, placed sequentially.
    pub fn new(k: KMatrix) -> Self {
        Self {
            k,
            placement: Placement::default(),
        }
    }

    /// Sets the placement.
    pub fn with_placement(self, placement: Placement) -> Self {
        Self { placement, ..self }
    }

    /// The matrix.
    pub fn k(&self) -> &KMatrix {
        &self.k
    }

    /// The turn of `drafter`, if it has one.
    fn turn(&self, reviewer: LevelId, drafter: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        let entries = |levels: std::ops::RangeInclusive<usize>| -> usize {
            levels.map(|j| self.k.tokens(reviewer, LevelId(j))).sum()
        };
        let entry = self.k.tokens(reviewer, drafter);
        let (tokens, start) = match self.placement {
            Placement::Sequential => {
                let stopped: usize = state.turns.iter().map(|turn| turn.left_by_stop()).sum();
                let goal = entries(reviewer.0 + 1..=drafter.0).saturating_sub(stopped);
                (goal.saturating_sub(state.depth), TurnStart::Tip)
            }
            Placement::Merged => (entry, TurnStart::Root),
        };
        let reserved = entries(drafter.0 + 1..=self.k.size());
        (entry > 0 && tokens > 0).then(|| Turn {
            drafter,
            tokens,
            start,
            reserved,
            nodes: match self.placement {
                Placement::Sequential => state.budget.nodes,
                // All shares are fixed before anything is drafted; the remainder goes to the first
                // drafter.
                Placement::Merged if state.turns.is_empty() => {
                    entry.max(state.budget.nodes.saturating_sub(reserved))
                }
                Placement::Merged => entry,
            },
        })
    }
}

impl From<KMatrix> for StaticSchedule {
    fn from(k: KMatrix) -> Self {
        Self::new(k)
    }
}

impl Schedule for StaticSchedule {
    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        let last = state
            .turns
            .last()
            .map_or(reviewer, |last| last.turn.drafter);
        (last.0 + 1..=self.k.size()).find_map(|j| self.turn(reviewer, LevelId(j), state))
    }

    fn may_pair(&self, reviewer: LevelId, drafter: LevelId) -> bool {
        self.k.tokens(reviewer, drafter) > 0
    }

    fn check(&self, drafters: usize) -> Result<()> {
        match self.k.size() {
            size if size == drafters => Ok(()),
            size => Err(Error::KMatrixSize { size, drafters }),
        }
    }
}
