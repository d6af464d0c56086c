//! The K matrix as a schedule.

use cascade_core::LevelId;

use super::{DraftState, Plan, Schedule, Turn, TurnStart};
use crate::{Error, KMatrix, LevelSpec, Placement, Result};

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

    /// The turn of `drafter`, if it has one.
    fn turn(&self, reviewer: LevelId, drafter: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        let entries = |levels: std::ops::RangeInclusive<usize>| -> usize {
            levels.fold(0usize, |sum, j| {
                sum.saturating_add(self.k.tokens(reviewer, LevelId(j)))
            })
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

impl Schedule for StaticSchedule {
    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        let last = state
            .turns
            .last()
            .map_or(reviewer, |last| last.turn.drafter);
        (last.0 + 1..=self.k.size()).find_map(|j| self.turn(reviewer, LevelId(j), state))
    }

    /// # Errors
    /// * [`Error::KMatrixSize`]: the matrix is of another number of drafters.
    /// * [`Error::NotJoint`]: those who draft for a drafter that grows trees must mix
    ///   probabilities.
    fn prepare(&mut self, levels: &[LevelSpec<'_>]) -> Result<Plan> {
        let (size, drafters) = (self.k.size(), levels.len().saturating_sub(1));
        if size != drafters {
            return Err(Error::KMatrixSize { size, drafters });
        }
        let plan = Plan::new(levels.len());
        let plan = plan.with_pairs(|reviewer, drafter| self.k.tokens(reviewer, drafter) > 0);
        for (tree, level) in levels.iter().enumerate().filter(|(_, it)| it.grows_trees()) {
            let mut below = levels.iter().enumerate().skip(tree + 1);
            let unable = below.find(|(partner, it)| {
                plan.may_pair(LevelId(tree), LevelId(*partner)) && !it.takes_advice()
            });
            if let Some((_, partner)) = unable {
                return Err(Error::NotJoint {
                    drafter: level.name().to_owned(),
                    problem: format!("`{}` does not mix probabilities", partner.name()),
                });
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Convention, TurnRecord};
    use cascade_core::Budget;

    fn schedule(rows: &[&[usize]], placement: Placement) -> StaticSchedule {
        let rows = rows.iter().map(|row| row.to_vec()).collect();
        let k = KMatrix::new(rows, Convention::Added).unwrap();
        StaticSchedule::new(k).with_placement(placement)
    }

    /// The turns of a draft of 9 nodes for the target, in which each drafter drafts all that it is
    /// asked for: drafter, tokens, nodes and reserved nodes.
    fn turns(mut schedule: StaticSchedule) -> Vec<[usize; 4]> {
        let mut records: Vec<TurnRecord> = Vec::new();
        let mut depth = 0;
        loop {
            let state = DraftState {
                context: 0,
                depth,
                nodes: depth,
                ended: false,
                budget: Budget { depth: 9, nodes: 9 },
                drafters: schedule.k.size(),
                texts: 1,
                turns: &records,
            };
            let Some(turn) = schedule.next(LevelId::TARGET, &state) else {
                break;
            };
            depth += turn.tokens;
            records.push(TurnRecord {
                turn,
                path: Vec::new(),
                stopped: false,
                time: Default::default(),
            });
        }
        let of = |turn: &Turn| [turn.drafter.0, turn.tokens, turn.nodes, turn.reserved];
        records.iter().map(|record| of(&record.turn)).collect()
    }

    const ROWS: &[&[usize]] = &[&[2, 0, 3], &[0, 0, 0], &[0, 0, 0]];

    #[test]
    fn only_drafters_with_an_entry_have_a_turn() {
        let sequential = turns(schedule(ROWS, Placement::Sequential));
        assert_eq!(sequential, [[1, 2, 9, 3], [3, 3, 9, 0]]);
        assert_eq!(turns(schedule(&[&[0]], Placement::Merged)), [[0; 4]; 0]);
        assert_eq!(turns(schedule(&[&[0]], Placement::Sequential)), [[0; 4]; 0]);
    }

    /// Beside each other, the first gets what the entries of the others leave; every other one gets
    /// its own.
    #[test]
    fn merged_drafters_have_shares_that_do_not_depend_on_each_other() {
        let merged = turns(schedule(ROWS, Placement::Merged));
        assert_eq!(merged, [[1, 2, 6, 3], [3, 3, 3, 0]]);
    }

    #[test]
    fn a_drafter_that_overshot_leaves_nothing_to_the_next() {
        let mut schedule = schedule(&[&[2, 1], &[0, 0]], Placement::Sequential);
        let records = [TurnRecord {
            turn: Turn {
                drafter: LevelId(1),
                tokens: 2,
                start: TurnStart::Tip,
                reserved: 1,
                nodes: 9,
            },
            path: vec![0, 1, 2],
            stopped: false,
            time: Default::default(),
        }];
        let state = DraftState {
            context: 0,
            depth: 3,
            nodes: 3,
            ended: false,
            budget: Budget { depth: 9, nodes: 9 },
            drafters: 2,
            texts: 1,
            turns: &records,
        };
        assert_eq!(schedule.next(LevelId::TARGET, &state), None);
        // What is missing is not drafted by one without an entry.
        let short = DraftState { depth: 1, ..state };
        let mut without = self::schedule(&[&[2, 0], &[0, 0]], Placement::Sequential);
        assert_eq!(without.next(LevelId::TARGET, &short), None);
        // What a stop leaves is not the next one's; what a drafter had no proposal for is.
        for (stopped, tokens) in [(true, 1), (false, 2)] {
            let records = [TurnRecord {
                path: vec![0],
                stopped,
                ..records[0].clone()
            }];
            let state = DraftState {
                context: 0,
                depth: 1,
                turns: &records,
                ..state
            };
            let turn = schedule.next(LevelId::TARGET, &state).unwrap();
            assert_eq!((turn.drafter, turn.tokens), (LevelId(2), tokens));
        }
    }
}
