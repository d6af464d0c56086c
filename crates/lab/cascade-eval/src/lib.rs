//! Evaluation of cascades: recorded targets, losslessness, tuning, statistics.
//!
//! * [`trace`]: recorded outputs of a target, and replays of cascades with the recording in place
//!   of the target.
//! * [`lossless`]: whether a cascade's output is its target's.
//! * [`tune`]: search for a K matrix and lenience by predicted SWI.
//! * [`ngram`]: weights of the Max-Gram tree, fitted to recorded outputs.
//! * [`Marks`], [`Endings`]: whether answers are right, and how they end.
//! * [`ForwardBench`], [`steady_times`], [`CostTable`], [`Bootstrap`]: costs of forwards, and
//!   confidence intervals; [`cpu_time`].
//! * [`StepBench`], [`AssumedReplays`], [`WordProblems`]: experiments with configurations on
//!   recorded answers and on word problems.

#![forbid(unsafe_code)]

mod answers;
mod assumed;
mod bootstrap;
mod cells;
mod cpu_time;
mod error;
mod forward_check;
mod forward_cost;
mod forward_input;
pub mod lossless;
pub mod ngram;
mod steady;
mod step_bench;
mod swi;
pub mod trace;
pub mod tune;
mod word_problems;

pub use answers::{share_interval, Ending, Endings, Marks};
pub use assumed::{AssumedCosts, AssumedOutcome, AssumedReplays, AssumedReport, Drafts, Way};
pub use bootstrap::{median, Bootstrap};
pub use cpu_time::cpu_time;
pub use error::{Error, Result};
pub use forward_check::{CheckedForward, Compared, ForwardCheck};
pub use forward_cost::{read_bandwidth, ForwardBench, ForwardClock, ForwardCost, LONGEST_CONTEXT};
pub use steady::{rounded_times, steady_times, Halves, Problem, TimesError};
pub use step_bench::{
    DrafterShape, DrafterTime, MeasuredCascade, SimulatedModel, SoFar, StepBench, StepParts,
    StepTimes, TimedTarget, Walltime,
};
pub use swi::{CostError, CostTable};
pub use word_problems::{Phase, SetReport, WordProblems, WordProblemsReport};
