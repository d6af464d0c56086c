//! Timings of the steps of a cascade, by phase.

use cascade_engine::{Cascade, GenerationOutput, Options, Step, StepTimings};

use super::replay::replay_with;
use super::{LookupLog, Record};
use crate::Result;

/// The cost of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCost {
    /// What was drafted and accepted.
    pub step: Step,
    /// Where the time went. The target's forward is that of the live model, without the look-up.
    pub timings: StepTimings,
}

/// [Replays](super::replay()) a record and times its steps, except the first one, which includes
/// the prefill. The target of the cascade must be a [`TimedReplayScorer`](super::TimedReplayScorer)
/// that records in `log`. The time for looking up the recorded output is excluded.
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
