//! Reproductions of the papers' tables and figures.
//!
//! An experiment is a file under `configs/reproduce/` ([`Definition`]): the paper's reported
//! values, as data, and the cascades that are compared ([`Variant`]s), with their hyperparameters
//! in the paper's own convention. A variant is a configuration ([`Config`](cascade_config::Config))
//! of the experiment's [`Models`], which are loaded once. [`Experiment`] runs every variant over
//! every prompt into a folder of results, which can be resumed and split into shards ([`merge`]).
//! [`report`](fn@report) makes tables and plots of such a folder, without the models.
//!
//! Every output is compared with plain decoding's. Differences are reported and never averaged
//! away.
//!
//! [`report`](mod@report) has tables, plots and the HTML report; [`theory`] what drafting can gain,
//! by formula and by simulation.

mod definition;
mod draft_rule;
mod error;
mod ewif;
mod models;
mod oracle;
mod plan;
mod prompts;
mod record;
mod regression;
pub mod report;
mod reporting;
mod results;
mod runner;
mod sampled;
mod samples;
pub mod theory;
mod token_texts;
mod trained;
mod variant;

pub use definition::{
    AssumedCosts, Criterion, Definition, Grid, Kind, Metric, ModelNames, PaperFigure, PaperHead,
    PaperSplit, Recorded, Row,
};
pub use draft_rule::{DraftRule, Network, TrainedName};
pub use error::{Error, ErrorKind, Result};
pub use ewif::report_ewif;
pub use models::Models;
pub use plan::{Asked, Plan, PlannedModel, Suite};
pub use prompts::Choice;
pub use record::{Difference, ModelCalls, Run, Walltime, NEAR_TIE};
pub use regression::{Decomposition, ForwardCounts, ForwardTimes};
pub use reporting::{report, Reported};
pub use results::{check_folder, claim, is_written, merge};
pub use runner::{Experiment, Shard};
pub use sampled::SamplingSetting;
pub use trained::{HeldOut, PlannedRule, TrainingOutputs, TrainingReport};
pub use variant::{Role, Setting, Variant, MAX_GRAM_TOKENS};
