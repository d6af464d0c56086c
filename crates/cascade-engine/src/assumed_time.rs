//! Forwards that take an assumed time: for replays and tests, in which no clock but a virtual one
//! counts.

use std::time::Duration;

use cascade_core::{
    Observation, Result, RowTimes, Scorer, ScorerInfo, Scores, SharedForward, TokenId, TokenTree,
    Want,
};

use crate::{VirtualClock, VirtualText};

/// Decorates a scorer: each forward moves a virtual clock by the time that its rows are assumed to
/// take, one for each node of the tree and one. Prompts and what the model caught up with take no
/// time.
pub struct AssumedTime {
    scorer: Box<dyn Scorer + Send>,
    moves: Moves,
    times: RowTimes,
    forward: Option<SharedForward>,
}

/// What time forwards take.
#[derive(Clone, Debug)]
enum Moves {
    Clock(VirtualClock),
    /// The time of a level's forwards, which it shares with other texts.
    Batch(VirtualText, usize),
}

impl AssumedTime {
    /// Lets forwards of `scorer` take these times on this clock.
    pub fn new(
        scorer: impl Into<Box<dyn Scorer + Send>>,
        clock: VirtualClock,
        times: RowTimes,
    ) -> Self {
        Self {
            scorer: scorer.into(),
            moves: Moves::Clock(clock),
            times,
            forward: None,
        }
    }
}

impl Scorer for AssumedTime {
    fn info(&self) -> ScorerInfo {
        self.scorer.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.scorer.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let scores = self.scorer.score(context, tree, want)?;
        let rows = tree.len() + 1;
        match &self.moves {
            Moves::Clock(clock) => {
                let seconds = self.times.seconds(rows).clamp(0.0, 1e9);
                clock.advance(Duration::from_secs_f64(seconds));
            }
            Moves::Batch(text, level) => {
                self.forward = Some(text.forward(*level, rows, &self.times));
            }
        }
        Ok(scores)
    }

    fn reach(&self, context: &[TokenId]) -> Option<usize> {
        self.scorer.reach(context)
    }

    fn observe(&mut self, observation: &Observation<'_>) -> Result<()> {
        self.scorer.observe(observation)
    }

    fn texts(&self) -> usize {
        match &self.moves {
            Moves::Clock(_) => 1,
            Moves::Batch(text, _) => text.texts(),
        }
    }

    fn shared_forward(&self) -> Option<SharedForward> {
        self.forward
    }
}

/// Times that the forwards of a cascade are assumed to take, in place of those of the machine's
/// clock.
#[derive(Clone, Debug)]
pub struct AssumedTimes {
    /// The clock that forwards move; what is not a forward takes no time.
    pub clock: VirtualClock,
    /// Times of the target's forwards.
    pub target: RowTimes,
    /// Times of each neural drafter, largest first; further drafters have those of the last.
    pub drafters: Vec<RowTimes>,
    /// The text that is generated, if others share these forwards; the clock is the text's own.
    pub text: Option<VirtualText>,
}

impl AssumedTimes {
    /// The times of the target, which is level 0, or of a neural drafter, counted from 1.
    pub fn times_of(&self, level: usize) -> &RowTimes {
        let drafter = level.checked_sub(1);
        drafter
            .and_then(|drafter| self.drafters.get(drafter).or(self.drafters.last()))
            .unwrap_or(&self.target)
    }

    /// `scorer` with the times of the target, which is level 0, or of a neural drafter, counted
    /// from 1.
    pub fn of_level(&self, level: usize, scorer: Box<dyn Scorer + Send>) -> AssumedTime {
        let times = self.times_of(level).clone();
        let moves = match self.text.clone() {
            None => Moves::Clock(self.clock.clone()),
            Some(text) => Moves::Batch(text, level),
        };
        AssumedTime {
            scorer,
            moves,
            times,
            forward: None,
        }
    }
}
