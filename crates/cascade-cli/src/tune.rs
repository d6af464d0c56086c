//! `cascade tune`: searches K and lenience by predicted time on recorded outputs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use cascade_config::{AssembleOptions, Config, DeviceSpec, DrafterModel, ModelPool};
use cascade_core::Drafter;
use cascade_engine::RowTimes;
use cascade_eval::trace::{Record, Trace};
use cascade_eval::tune::{search, Candidate, Recording, Recordings, Setting, Space, Times};
use cascade_eval::{rounded_times, steady_times, ForwardBench, ForwardCost};
use cascade_models::{LoadedModel, Session};
use clap::Args;

use crate::at_most;
use crate::models::refuse_another_kind;
use crate::progress::Progress;
use crate::{costs, terminal};

mod halves;
mod held_out;
mod report;

use halves::halves;
use held_out::{HeldOut, Outcome};
use report::Report;

/// Draft depth recorded for statistical drafters.
const STATISTICAL_DEPTH: usize = 16;

/// The search takes time in proportion to the lengths it tries, and a draft that is longer pays on
/// no model: acceptance would have to be nearly 1.
const MOST_K: usize = 256;

/// The search takes time in proportion to its starting points.
const MOST_STARTS: usize = 1000;

/// Rows of the forwards that are measured.
const MEASURED_ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// The target's recorded outputs: a trace from `cascade trace record`, plain or gzip. Every
    /// second conversation is searched on; the results are those of the others.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// Configuration whose drafters are tuned [default: embedded:demo-t5].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Records to read at most, spread evenly over the trace.
    #[arg(long, value_name = "N")]
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

    /// Number of settings on the frontier to replay, on both halves: the first checks the
    /// prediction, the second is the result.
    #[arg(long, value_name = "N", default_value_t = 3)]
    check: usize,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,

    /// Device, overriding the configuration: auto, cpu or cuda:N.
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
        let costs = text.split(',').map(|cost| cost.trim().parse::<f64>());
        let costs: Vec<f64> = costs.collect::<Result<_, _>>().map_err(|_| {
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
    let mut trace = Trace::open(&args.trace)?;
    trace.records.retain(|record| !record.output.is_empty());
    let records = trace.spread(args.limit.unwrap_or(usize::MAX));
    trace.records = records.cloned().collect();
    if trace.records.is_empty() {
        bail!("{}: the trace has no output tokens to tune on", trace.label);
    }
    let pool = config.pool(&AssembleOptions::default().with_device(args.device));
    let drafters = pool.drafters(&config, &trace.header.tokenizer())?;
    for drafter in &drafters {
        if let DrafterModel::Neural { model, .. } = drafter {
            refuse_another_kind(&format!("{}: drafter", config.label), model, &trace)?;
        }
    }
    let tuner = Tuner {
        args,
        times: times(args, &config, &trace, &drafters, &pool)?,
        config,
        trace: Arc::new(trace),
        drafters,
        pool,
    };
    crate::job::say_notes(&tuner.pool.notes());
    tuner.run()?;
    Ok(ExitCode::SUCCESS)
}

/// What forwards of the target and of each drafter take; nothing for statistical ones.
fn times(
    args: &TuneArgs,
    config: &Config,
    trace: &Trace,
    models: &[DrafterModel],
    pool: &ModelPool,
) -> Result<Times> {
    let linear = |cost: f64| RowTimes::linear(cost, args.row_cost);
    let loaded = |model: &DrafterModel| match model {
        DrafterModel::Statistical(_) => None,
        DrafterModel::Neural { model, .. } => Some(Arc::clone(model)),
    };
    let neural: Vec<_> = models.iter().map(loaded).collect();
    if let Costs::Given(costs) = &args.costs {
        let expected = 1 + neural.iter().flatten().count();
        if costs.len() != expected {
            bail!(
                "--costs: {} numbers for {expected} neural models (the target and its neural drafters)",
                costs.len()
            );
        }
        // In forwards of the target.
        let mut given = costs.iter().map(|cost| cost / costs[0]);
        let mut next = || linear(given.next().unwrap_or(1.0));
        return Ok(Times {
            target: next(),
            drafters: neural
                .iter()
                .map(|model| model.as_ref().map(|_| next()))
                .collect(),
        });
    }
    if let Costs::Files(files) = &args.costs {
        return of_files(files, trace, &neural);
    }
    let target = pool.target(config).context(
        "its forwards are measured or its parameters counted; \
         give --costs as numbers or files to tune on a trace alone",
    )?;
    if let Costs::Parameters = &args.costs {
        let parameters = target.num_parameters() as f64;
        let of = |model: &LoadedModel| linear(model.num_parameters() as f64 / parameters);
        let drafters = neural.iter().map(|model| model.as_deref().map(of));
        return Ok(Times {
            target: of(&target),
            drafters: drafters.collect(),
        });
    }
    let costs = measured(&target)?;
    // In units of the target's forward: so little noise that the same settings come out.
    let unit = costs[0].typical.as_secs_f64();
    let of = |model: &Arc<LoadedModel>| -> Result<RowTimes> {
        Ok(rounded_times(&measured(model)?, unit))
    };
    let drafters = neural
        .iter()
        .map(|model| model.as_ref().map(of).transpose());
    Ok(Times {
        drafters: drafters.collect::<Result<_>>()?,
        target: rounded_times(&costs, unit),
    })
}

/// Times that were measured before.
fn of_files(
    files: &[PathBuf],
    trace: &Trace,
    neural: &[Option<Arc<LoadedModel>>],
) -> Result<Times> {
    let files = costs::open(files)?;
    let context = trace.typical_context();
    let of = |model: &str| -> Result<RowTimes> {
        let (name, file) = costs::of_model(&files, model)?;
        terminal::note(format_args!("{}", file.describe(name)));
        Ok(file.times(context))
    };
    let drafters = neural
        .iter()
        .map(|model| model.as_ref().map(|model| of(&model.name)).transpose());
    Ok(Times {
        target: of(&trace.header.model)?,
        drafters: drafters.collect::<Result<_>>()?,
    })
}

/// Forwards by rows, the first of one row.
fn measured(model: &LoadedModel) -> Result<Vec<ForwardCost>> {
    let bench = ForwardBench {
        contexts: vec![128],
        rows: MEASURED_ROWS.to_vec(),
        clock: costs::clock(&model.model),
        ..ForwardBench::default()
    };
    steady_times(&bench, &mut model.session()).with_context(|| model.name.to_string())
}

/// A drafter while it is recorded.
enum Recorded {
    Neural(Box<Session>),
    Statistical(Box<dyn Drafter + Send>),
}

impl Recorded {
    fn new(model: &DrafterModel) -> Self {
        match model {
            DrafterModel::Neural { model, .. } => Self::Neural(Box::new(model.session())),
            DrafterModel::Statistical(factory) => Self::Statistical(factory.drafter()),
        }
    }
}

struct Tuner<'a> {
    args: &'a TuneArgs,
    config: Config,
    trace: Arc<Trace>,
    drafters: Vec<DrafterModel>,
    pool: ModelPool,
    times: Times,
}

impl Tuner<'_> {
    fn run(&self) -> Result<()> {
        let (training, held_out) = halves(&self.trace.records);
        let recordings = self.record(&training)?;
        let space = Space {
            max_neural: self.args.max_k,
            starts: self.args.starts,
            seed: self.args.seed,
            ..Space::default()
        };
        let frontier = search(&recordings, &space, &self.times)?;
        let own = self.own_setting(&recordings)?;
        let mut outcomes = Vec::new();
        let checks = HeldOut::new(self, &training, &held_out);
        for candidate in frontier.iter().take(self.args.check) {
            outcomes.push(checks.of_setting(&candidate.setting)?);
        }
        let always = checks.always(&recordings, &space)?;
        let report = Report {
            tuner: self,
            training: training.len(),
            held_out: held_out.len(),
            tokens: recordings.tokens(),
            frontier: &frontier,
            outcomes: &outcomes,
            always: &always,
            own,
        };
        match self.args.json {
            true => report.print_json(),
            false => report.print(),
        }
    }

    /// Each drafter's predictions along the target's texts, smallest drafter first.
    fn record(&self, records: &[&Record]) -> Result<Recordings> {
        let mut models: Vec<_> = self.drafters.iter().map(Recorded::new).collect();
        let mut progress = Progress::new(records.len(), "records");
        let mut recordings = Vec::with_capacity(records.len());
        for record in records {
            let prompt = record.prompt();
            let mut recording = Recording::new(record.output.clone());
            for model in models.iter_mut().rev() {
                match model {
                    Recorded::Neural(session) => {
                        recording.add_neural(&mut **session, &prompt)?;
                    }
                    Recorded::Statistical(drafter) => {
                        recording.add_statistical(&mut **drafter, &prompt, STATISTICAL_DEPTH);
                    }
                }
            }
            recordings.push(recording);
            progress.step();
        }
        Ok(Recordings::new(recordings))
    }

    /// The prediction for the configuration's own setting, if it has a K matrix.
    fn own_setting(&self, recordings: &Recordings) -> Result<Option<f64>> {
        let Some(k) = self.config.k() else {
            return Ok(None);
        };
        let setting = Setting {
            k: k.clone(),
            lenience: self.config.lenience,
        };
        let prediction = recordings.predict(&setting, &self.times)?;
        Ok(Some(prediction.swi(&self.times.of_one_row())))
    }
}
