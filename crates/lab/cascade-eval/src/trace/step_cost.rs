//! What the steps of a cascade take, part by part.

use cascade_engine::{Cascade, GenerationOutput, Options, Step, StepTimings};

use super::replay::replay_with;
use super::{LookupLog, Record, Result};

/// What one step took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCost {
    /// What was drafted and accepted.
    pub step: Step,
    /// Where the time went. The target's forward is that of the live model alone.
    pub timings: StepTimings,
}

/// [Replays](super::replay()) a record and times its steps, the first one excepted: it reads the
/// prompt. The target of the cascade is a [`TimedReplayScorer`](super::TimedReplayScorer) that
/// books in `log`. How long the recorded answer is looked up counts nowhere.
///
/// # Errors
/// As [`replay`](super::replay()).
pub fn replay_timed(
    cascade: &mut Cascade,
    record: &Record,
    options: &Options,
    log: &LookupLog,
) -> Result<(GenerationOutput, Vec<StepCost>)> {
    log.take();
    let mut costs = Vec::new();
    let output = replay_with(cascade, record, options, |report| {
        costs.push(StepCost {
            step: report.step,
            timings: report.timings,
        });
    })?;
    for (cost, lookup) in costs.iter_mut().zip(log.take()) {
        cost.timings.forward = cost.timings.forward.saturating_sub(lookup);
    }
    Ok((output, costs.split_off(1.min(costs.len()))))
}
