//! The papers' tables and figures, made again.
//!
//! An experiment is a file under `configs/reproduce/` ([`Definition`]): what the paper says, as data, and the cascades that
//! are compared ([`Arm`]s), with their hyperparameters in the paper's own convention. [`Experiment`] loads the models once and
//! runs every arm over every prompt into a folder of results, which can be resumed and split into shards ([`merge`]).
//! [`report`](fn@report) makes tables and plots of such a folder, without the models.
//!
//! Every output is compared with plain decoding's. What differs is shown, and never averaged away.
//!
//! Above this crate stands the command line alone.

mod arm;
mod definition;
mod error;
mod ewif;
mod lineup;
mod pieces;
mod plan;
mod prompts;
mod record;
mod reporting;
mod runner;
mod samples;

pub use arm::{Arm, Role, Setting, MAX_GRAM_TOKENS};
pub use definition::{Definition, Grid, Kind, Metric, ModelNames, PaperFigure, Row};
pub use error::{Error, Result};
pub use ewif::report_ewif;
pub use lineup::Lineup;
pub use plan::{Asked, Plan, PlannedModel, Suite};
pub use prompts::Choice;
pub use record::{Difference, ModelCalls, Run, Walltime, NEAR_TIE};
pub use reporting::{report, Reported};
pub use runner::{merge, Experiment, Shard};
