//! Reproductions of the papers' tables and figures.
//!
//! An experiment is a file under `configs/reproduce/` ([`Definition`]): the paper's reported
//! values, as data, and the cascades that are compared (variants), with their hyperparameters
//! in the paper's own convention. A variant is a configuration ([`Config`](cascade_config::Config))
//! of the experiment's models, which are loaded once. [`Experiment`] runs every variant over
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

pub use definition::{Definition, ExperimentKind, Metric};
pub use error::{Error, ErrorKind};
pub use ewif::report_ewif;
pub use plan::Plan;
pub use prompts::Choice;
pub use record::Run;
pub use regression::Decomposition;
pub use reporting::{Reported, report};
pub use results::{check_folder, claim, is_written, merge};
pub use runner::{Experiment, Shard};

pub(crate) use definition::{Criterion, PaperFigure, PaperHead, PaperRow, PaperSplit};
pub(crate) use error::Result;
pub(crate) use plan::{PlannedModel, Suite};
pub(crate) use record::NEAR_TIE;
pub(crate) use trained::{HeldOut, PlannedRule};
pub(crate) use variant::{Role, Variant};
