//! `cascade-lab tune`: searches K and lenience by predicted time on recorded outputs.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result};
use cascade_config::{AssembleOptions, Config, DeviceSpec, DrafterModel, ModelPool};
use cascade_traces::trace::Trace;
use cascade_traces::tune::{Space, Times, Tuner};
use clap::Args;

use crate::exit::ExitCode;
use crate::progress::Progress;
use crate::{at_most, interrupt, job, recorded, terminal};

mod report;

use report::Report;

/// The search takes time in proportion to the lengths it tries, and a draft that is longer pays on
/// no model: acceptance would have to be nearly 1.
const MOST_K: usize = 256;

/// The search takes time in proportion to its starting points.
const MOST_STARTS: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// The target's recorded outputs: a trace from `cascade-lab trace record`, plain or gzip. Every
    /// second conversation is searched on; the results are those of the others.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// Configuration whose drafters are tuned [default: embedded:demo-t5].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Records to read at most, spread evenly over the trace.
    #[arg(long, value_name = "N", value_parser = crate::at_most(1 << 30))]
    limit: Option<usize>,

    /// Time of a forward: `measured` (by rows, on this machine, until two measurements agree) or
    /// `parameters` (in proportion to parameter counts), which both load the target; or values for
    /// the target and each neural drafter, such as 11300,220,60; or files that `cascade bench model
    /// --save` wrote, one for each model, by commas: the same files give the same result.
    #[arg(long, value_name = "COSTS", default_value = "measured")]
    costs: Costs,

    /// What each further row adds to a forward, as a share of one row, where it is not measured.
    #[arg(long, value_name = "C", default_value_t = 0.02, value_parser = row_cost)]
    row_cost: f64,

    /// Maximum number of tokens a neural drafter adds.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_most(MOST_K))]
    max_k: usize,

    /// Number of starting points of the search.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_most(MOST_STARTS))]
    starts: usize,

    /// Seed for the search's starting points.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// Number of settings to replay: the one that is fastest by prediction, and the next best that
    /// draft less. Replayed on both halves: the first checks the prediction, the second is the
    /// result.
    #[arg(long, value_name = "N", default_value_t = 3)]
    check: usize,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,

    /// Device, overriding the configuration: auto, cpu, cuda:N or metal:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,
}

#[derive(Clone, Debug)]
enum Costs {
    Parameters,
    Measured,
    Given(Vec<f64>),
    Files(Vec<PathBuf>),
}

fn row_cost(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cost) if cost.is_finite() && cost >= 0.0 => Ok(cost),
        _ => Err("give a number of 0 or above".to_owned()),
    }
}

impl FromStr for Costs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "parameters" => return Ok(Self::Parameters),
            "measured" => return Ok(Self::Measured),
            _ => {}
        }
        if text.split(',').all(|cost| cost.trim().ends_with(".json")) {
            let files = text.split(',').map(|file| PathBuf::from(file.trim()));
            return Ok(Self::Files(files.collect()));
        }
        let costs: Vec<f64> = text
            .split(',')
            .map(|cost| cost.trim().parse::<f64>())
            .collect::<Result<_, _>>()
            .map_err(|_| {
                "give `parameters`, `measured`, comma-separated numbers, or files (.json) of \
                 `cascade bench model --save`"
                    .to_owned()
            })?;
        if costs.iter().all(|cost| cost.is_finite() && *cost > 0.0) {
            Ok(Self::Given(costs))
        } else {
            Err("costs must be finite and above 0".to_owned())
        }
    }
}

pub(crate) fn run(args: &TuneArgs) -> Result<ExitCode> {
    let config = match &args.config {
        Some(file) => Config::open(file)?,
        None => Config::open("embedded:demo-t5")?,
    };
    let trace = Trace::open(&args.trace)?;
    let pool = config.pool(&AssembleOptions::default().with_device(args.device));
    let limit = args.limit.unwrap_or(usize::MAX);
    let tuner = Tuner::new(
        config,
        trace,
        limit,
        pool,
        |config, trace, drafters, pool| args.times(config, trace, drafters, pool),
    )?;
    job::say_notes(&tuner.pool.notes());
    let mut progress = Progress::new(tuner.searched_on(), "records");
    let tuned = tuner.run(&args.space(), args.check, || {
        progress.step();
        interrupt::unless_requested()
    })?;
    drop(progress);
    let Some(mut tuned) = tuned else {
        return Ok(interrupt::status());
    };
    tuned.measured = matches!(args.costs, Costs::Measured);
    if args.json {
        terminal::write_json(&mut terminal::stdout(), &tuned)?
    } else {
        Report {
            tuner: &tuner,
            tuned: &tuned,
            costs: &args.costs,
        }
        .print()?
    }
    Ok(ExitCode::SUCCESS)
}

impl TuneArgs {
    fn space(&self) -> Space {
        Space {
            max_neural: self.max_k,
            starts: self.starts,
            seed: self.seed,
            ..Space::default()
        }
    }

    /// What forwards of the target and of each drafter take; nothing for statistical ones.
    fn times(
        &self,
        config: &Config,
        trace: &Trace,
        drafters: &[DrafterModel],
        pool: &ModelPool,
    ) -> Result<Times> {
        match &self.costs {
            Costs::Given(costs) => {
                return Times::given(costs, drafters, self.row_cost).context("--costs");
            }
            Costs::Files(files) => return recorded::times(files, config, trace),
            Costs::Parameters | Costs::Measured => {}
        }
        let target = pool.target(config).context(
            "its forwards are measured or its parameters counted; \
             give --costs as numbers or files to tune on a trace alone",
        )?;
        Ok(match &self.costs {
            Costs::Parameters => Times::by_parameters(&target, drafters, self.row_cost),
            _ => Times::measured(&target, drafters)?,
        })
    }
}
