//! `cascade tune`: searches K and lenience by predicted cost on recorded outputs.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use cascade_config::{AssembleOptions, Config, DeviceSpec, DrafterModel, ModelPool, Target};
use cascade_core::Drafter;
use cascade_eval::trace::{replay, Trace, TraceScorer};
use cascade_eval::tune::{search, Candidate, Prediction, Recording, Recordings, Setting, Space};
use cascade_eval::ForwardBench;
use cascade_models::Session;
use clap::Args;
use serde_json::json;

use crate::at_most;
use crate::progress::Progress;
use crate::terminal;

/// Draft depth recorded for statistical drafters.
const STATISTICAL_DEPTH: usize = 16;

/// The search takes time in proportion to the lengths it tries, and a draft that is longer pays on
/// no model: acceptance would have to be nearly 1.
const MOST_K: usize = 256;

/// The search takes time in proportion to its starting points.
const MOST_STARTS: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// The target's recorded outputs: a trace from `cascade trace record`, plain or gzip.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// Configuration whose drafters are tuned [default: embedded:demo-t5].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Maximum number of records.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Cost of a forward: `parameters` (parameter counts) or `measured` (timed on this machine),
    /// which both load the target; or values for the target and each neural drafter, such as
    /// 11300,220,60.
    #[arg(long, value_name = "COSTS", default_value = "parameters")]
    costs: Costs,

    /// Maximum number of tokens a neural drafter adds.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_most(MOST_K))]
    max_k: usize,

    /// Number of starting points of the search.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_most(MOST_STARTS))]
    starts: usize,

    /// Seed for the search's starting points.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// Number of settings on the frontier to replay, as a check of the prediction.
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
}

impl FromStr for Costs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "parameters" => return Ok(Self::Parameters),
            "measured" => return Ok(Self::Measured),
            _ => {}
        }
        let costs = text.split(',').map(|cost| cost.trim().parse::<f64>());
        let costs: Vec<f64> = costs
            .collect::<Result<_, _>>()
            .map_err(|_| "give `parameters`, `measured`, or comma-separated numbers".to_owned())?;
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
        None => Config::demo()?,
    };
    let mut trace = Trace::open(&args.trace)?;
    trace.records.truncate(args.limit.unwrap_or(usize::MAX));
    if trace.records.iter().all(|record| record.output.is_empty()) {
        bail!("{}: the trace has no output tokens to tune on", trace.label);
    }
    let pool = config.pool(&AssembleOptions::default().with_device(args.device));
    let drafters = pool.drafters(&config, &trace.header.tokenizer())?;
    let tuner = Tuner {
        args,
        costs: costs(args, &config, &drafters, &pool)?,
        config,
        trace: Arc::new(trace),
        drafters,
        pool,
    };
    crate::job::say_notes(&tuner.pool.notes());
    tuner.run()?;
    Ok(ExitCode::SUCCESS)
}

/// Cost of a forward of the target and of each drafter; 0 for statistical ones.
fn costs(
    args: &TuneArgs,
    config: &Config,
    models: &[DrafterModel],
    pool: &ModelPool,
) -> Result<Vec<f64>> {
    let neural = |model: &DrafterModel| matches!(model, DrafterModel::Neural { .. });
    let mut costs = match &args.costs {
        Costs::Given(costs) => {
            let expected = 1 + models.iter().filter(|model| neural(model)).count();
            if costs.len() != expected {
                bail!(
                    "--costs: {} numbers for {expected} neural models (the target and its neural drafters)",
                    costs.len()
                );
            }
            let mut given = costs.iter().copied();
            let mut all = vec![given.next().unwrap_or(1.0)];
            for model in models {
                all.push(if neural(model) {
                    given.next().unwrap_or(0.0)
                } else {
                    0.0
                });
            }
            return Ok(all);
        }
        Costs::Parameters => vec![pool.target(config)?.num_parameters() as f64],
        Costs::Measured => vec![measured(&mut pool.target(config)?.session())?],
    };
    for model in models {
        costs.push(match (model, &args.costs) {
            (DrafterModel::Statistical(_), _) => 0.0,
            (DrafterModel::Neural { model, .. }, Costs::Measured) => {
                measured(&mut model.session())?
            }
            (DrafterModel::Neural { model, .. }, _) => model.num_parameters() as f64,
        });
    }
    Ok(costs)
}

/// Seconds of a forward of one row.
fn measured(scorer: &mut dyn cascade_core::Scorer) -> Result<f64> {
    let bench = ForwardBench {
        contexts: vec![128],
        rows: vec![1],
        ..ForwardBench::default()
    };
    let costs = bench.run(scorer)?;
    let first = costs
        .first()
        .context("the model has fewer than 128 positions")?;
    Ok(first.median.as_secs_f64())
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
    costs: Vec<f64>,
}

impl Tuner<'_> {
    fn run(&self) -> Result<()> {
        let recordings = self.record()?;
        let space = Space {
            max_neural: self.args.max_k,
            starts: self.args.starts,
            seed: self.args.seed,
            ..Space::default()
        };
        let frontier = search(&recordings, &space, &self.costs)?;
        let own = self.own_setting(&recordings)?;
        let mut checked = Vec::new();
        for candidate in frontier.iter().take(self.args.check) {
            checked.push(self.replayed(&candidate.setting)?);
        }
        if self.args.json {
            self.print_json(&frontier, &checked, own)
        } else {
            self.print(&recordings, &frontier, &checked, own)
        }
    }

    /// Each drafter's predictions along the target's texts, smallest drafter first.
    fn record(&self) -> Result<Recordings> {
        let mut models: Vec<_> = self.drafters.iter().map(Recorded::new).collect();
        let mut progress = Progress::new(self.trace.records.len(), "records");
        let mut recordings = Vec::with_capacity(self.trace.records.len());
        for record in self
            .trace
            .records
            .iter()
            .filter(|record| !record.output.is_empty())
        {
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

    /// The prediction for the configuration's own setting.
    fn own_setting(&self, recordings: &Recordings) -> Result<f64> {
        let setting = Setting {
            k: self.config.k().clone(),
            lenience: self.config.lenience,
        };
        Ok(recordings.predict(&setting)?.swi(&self.costs))
    }

    /// The SWI of a setting, with calls counted in a replay.
    fn replayed(&self, setting: &Setting) -> Result<f64> {
        let mut config = self.config.clone().with_k(setting.k.clone())?;
        config.lenience = setting.lenience;
        let options = config.generation.options();
        let scorer = TraceScorer::new(self.trace.clone())?;
        let header = &self.trace.header;
        let target = Target::new(scorer, &self.trace.label, header.tokenizer())
            .with_eos(header.eos.iter().copied());
        let assembled = self.pool.assemble_with_target(&config, target)?;
        let mut cascade = assembled.cascade;
        let mut counted = Prediction {
            tokens: 0,
            calls: vec![0; self.costs.len()],
        };
        for record in self
            .trace
            .records
            .iter()
            .filter(|record| !record.output.is_empty())
        {
            let generation = replay(&mut cascade, record, &options)?;
            counted.tokens += generation.tokens.len() as u64;
            for (sum, model) in counted.calls.iter_mut().zip(&generation.models) {
                *sum += model.usage.calls;
            }
        }
        Ok(counted.swi(&self.costs))
    }

    fn print(
        &self,
        recordings: &Recordings,
        frontier: &[Candidate],
        checked: &[f64],
        own: f64,
    ) -> Result<()> {
        let mut out = terminal::stdout();
        let tokens: usize = recordings.tokens();
        writeln!(
            out,
            "predicted from {} recorded outputs of {}, {tokens} tokens; costs {:?}",
            recordings.len(),
            self.trace.header.model,
            self.costs
        )?;
        writeln!(out, "current setting of the configuration: SWI {own:.2}\n")?;
        writeln!(
            out,
            "{:>9} {:>8} {:>11} {:>13} {:>8}  k",
            "predicted", "replayed", "tokens/step", "drafting/token", "lenience"
        )?;
        for (i, candidate) in frontier.iter().enumerate() {
            let replayed = checked
                .get(i)
                .map_or_else(String::new, |swi| format!("{swi:.2}"));
            writeln!(
                out,
                "{:>9.2} {replayed:>8} {:>11.2} {:>14.3} {:>8}  {:?}",
                candidate.swi,
                candidate.prediction.mean_acceptance_length(),
                candidate.prediction.drafting_per_token(&self.costs),
                candidate.setting.lenience,
                candidate.setting.k.rows()
            )?;
        }
        if let Some(best) = frontier.first() {
            writeln!(
                out,
                "\nk: {{ convention: added, matrix: {:?} }}\nlenience: {}",
                best.setting.k.rows(),
                best.setting.lenience
            )?;
        }
        Ok(())
    }

    fn print_json(&self, frontier: &[Candidate], checked: &[f64], own: f64) -> Result<()> {
        let candidates = frontier.iter().enumerate().map(|(i, candidate)| {
            json!({
                "k": candidate.setting.k.rows(),
                "lenience": candidate.setting.lenience.get(),
                "predicted_swi": candidate.swi,
                "replayed_swi": checked.get(i),
                "predicted_calls": candidate.prediction.calls,
                "tokens": candidate.prediction.tokens,
            })
        });
        let report = json!({
            "target": self.trace.header.model,
            "costs": self.costs,
            "own_predicted_swi": own,
            "frontier": candidates.collect::<Vec<_>>(),
        });
        writeln!(terminal::stdout(), "{report}")?;
        Ok(())
    }
}
