//! What the steps of a cascade take, part by part.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use cascade_engine::{Cascade, Event, Generation, Options, Step};

use super::paced::Call;
use super::replay::replay_with;
use super::{CallLog, Record, Result};

/// What one step took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCost {
    /// What was drafted and kept.
    pub step: Step,
    /// Drafting: from the token emitted last to the question to the target. Forwards of neural drafters are a part of it.
    pub drafting: Duration,
    /// The target's forward.
    pub forward: Duration,
    /// Review: from the target's answer to the verdict.
    pub review: Duration,
    /// From the verdict to the last of its tokens.
    pub emission: Duration,
}

impl StepCost {
    /// Everything but the target's forward.
    pub fn overhead(&self) -> Duration {
        self.drafting + self.review + self.emission
    }
}

/// [Replays](super::replay()) a record and times its steps, the first one excepted: it reads the prompt. The target of the
/// cascade is a [`PacedScorer`](super::PacedScorer) that books in `log`. How long the recorded answer is looked for counts
/// nowhere.
///
/// # Errors
/// As [`replay`](super::replay()).
pub fn replay_timed(
    cascade: &mut Cascade,
    record: &Record,
    options: &Options,
    log: &CallLog,
) -> Result<(Generation, Vec<StepCost>)> {
    log.take();
    let mut marks: Vec<Mark> = Vec::new();
    let generation = replay_with(cascade, record, options, |event| {
        let now = Instant::now();
        match event {
            Event::Step(step) => marks.push(Mark {
                step,
                reviewed: now,
                emitted: now,
            }),
            Event::Token { .. } | Event::Text { .. } => {
                if let Some(mark) = marks.last_mut() {
                    mark.emitted = now;
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    let calls = log.take();
    let later = marks.iter().zip(marks.iter().zip(&calls).skip(1));
    let costs = later.map(|(before, (mark, call))| cost(before, mark, call));
    Ok((generation, costs.collect()))
}

/// When a step was reviewed, and when its last token was out.
struct Mark {
    step: Step,
    reviewed: Instant,
    emitted: Instant,
}

fn cost(before: &Mark, mark: &Mark, call: &Call) -> StepCost {
    StepCost {
        step: mark.step,
        drafting: call.entered - before.emitted,
        forward: call.forward,
        review: mark.reviewed - call.left,
        emission: mark.emitted - mark.reviewed,
    }
}
