//! Recorded targets: replays in their place, tuning and training by them.
//!
//! * [`trace`]: recorded outputs of a target, and replays of cascades with the recording in place
//!   of the target.
//! * [`StepBench`]: walltime of recorded answers, with forwards that are timed.
//! * [`tune`]: search for a K matrix and lenience by predicted SWI.
//! * [`ngram`]: what n-gram tables and the weights of the Max-Gram tree are worth.
//! * [`train`]: networks that decide when a drafter stops, and heads that draft.
//! * [`CostTable`]: the standardized walltime improvement.
//! * [`AssumedReplays`], [`WordProblems`]: experiments with configurations on recorded answers and
//!   on word problems.

#![forbid(unsafe_code)]

mod assumed;
pub mod error;
pub mod ngram;
mod ratio;
mod reliability;
mod step_bench;
mod swi;
pub mod trace;
pub mod train;
pub mod tune;
mod word_problems;

pub use assumed::{AssumedCosts, AssumedOutcome, AssumedReplays, AssumedReport, Drafts, Way};
pub use cascade_eval::{Error, ErrorKind, Result};
pub use reliability::{Bin, Bins, LevelReliability, Reliability};
pub use step_bench::{
    DrafterShape, DrafterTime, MeasuredCascade, SimulatedModel, SoFar, StepBench, StepParts,
    StepTimes, TimedTarget, Walltime,
};
pub use swi::{CostError, CostTable};
pub use word_problems::{Phase, SetReport, WordProblems, WordProblemsReport, share_interval};
