//! Drafts of the lengths that an oracle would choose (SpecDec++, §3; DISCO, §2).

use cascade_core::LevelId;
use cascade_engine::{
    DraftState, GenerationOutput, LevelSpec, Outcome, Plan, Result, Schedule, Turn, TurnStart,
};

/// The lengths at which everything drafted is kept and one token more would not be: those that a
/// generation with an [`Oracle`](cascade_traces::trace::Oracle) accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownLengths {
    lengths: Vec<usize>,
    step: usize,
}

impl KnownLengths {
    pub(crate) fn of(generation: &GenerationOutput) -> Self {
        let steps = generation.steps.iter();
        Self {
            lengths: steps.map(|step| step.accepted).collect(),
            step: 0,
        }
    }
}

/// The first drafter drafts as many tokens as are known to be kept, so that none is discarded. It
/// knows the answer, and thus bounds what a rule can gain.
impl Schedule for KnownLengths {
    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        let tokens = self.lengths.get(self.step).copied().unwrap_or(0);
        let drafts = reviewer == LevelId::TARGET && !state.ended && state.turns.is_empty();
        (drafts && tokens > 0).then_some(Turn {
            drafter: LevelId(1),
            tokens,
            start: TurnStart::Tip,
            reserved: 0,
            nodes: tokens,
        })
    }

    fn prepare(&mut self, levels: &[LevelSpec<'_>]) -> Result<Plan> {
        let first = |reviewer, drafter| (reviewer, drafter) == (LevelId::TARGET, LevelId(1));
        Ok(Plan::new(levels.len()).with_pairs(first))
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        if outcome.reviewer == LevelId::TARGET {
            self.step += 1;
        }
    }
}
