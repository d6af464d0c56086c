//! Replays in which forwards take an assumed time: what a schedule is worth where rows cost so
//! much.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{bail, Result};
use cascade_config::{AssembleOptions, AssumedTimes, Config, Drafter, ModelPool, ScheduleConfig};
use cascade_engine::{Clock, Convention, KMatrix, RowTimes, VirtualClock};
use cascade_eval::trace::{replay, Oracle, OracleText, Record, Trace};
use cascade_eval::Bootstrap;
use clap::Args;
use serde_json::{json, Value};

use super::{target, warnings, ReplayArgs};
use crate::progress::Progress;
use crate::{at_most, costs, interrupt, terminal};

/// Seconds of a forward of one row; only ratios are shown.
const FORWARD: f64 = 1e-3;
/// The longest draft of fixed length.
const LONGEST: usize = 64;

#[derive(Debug, Args)]
pub(super) struct AssumedArgs {
    /// Assume that each row of a forward beyond the first adds this share of a forward of one row,
    /// and report speedups over plain decoding under that assumption; several, by commas.
    #[arg(long, value_name = "C,…", value_delimiter = ',', value_parser = cost)]
    row_cost: Vec<f64>,

    /// With --row-cost: what a forward of each neural drafter is assumed to take, in forwards of
    /// the target, largest drafter first.
    #[arg(long, value_name = "C,…", value_delimiter = ',', value_parser = cost, requires = "row_cost")]
    drafter_cost: Vec<f64>,

    /// Let forwards take the times of these files, which `cascade bench model --save` wrote: one
    /// for the target and one for each neural drafter, in any order and by commas.
    #[arg(
        long = "costs",
        value_name = "FILE,…",
        value_delimiter = ',',
        conflicts_with = "row_cost"
    )]
    files: Vec<PathBuf>,

    /// With --row-cost or --costs and a single drafter: also replay drafts of these fixed lengths,
    /// the best of which is the best static length in hindsight.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = at_most(LONGEST)
    )]
    lengths: Vec<usize>,

    /// With --row-cost or --costs: also replay the oracle, which drafts exactly what will be
    /// accepted.
    #[arg(long)]
    oracle: bool,
}

fn cost(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(cost) if cost.is_finite() && cost >= 0.0 => Ok(cost),
        _ => Err("give numbers of 0 and above".to_owned()),
    }
}

impl AssumedArgs {
    pub(super) const fn is_asked_for(&self) -> bool {
        !self.row_cost.is_empty() || !self.files.is_empty()
    }

    /// Refuses what says nothing without costs.
    pub(super) fn check(&self) -> Result<()> {
        let needing = [
            ("--lengths", !self.lengths.is_empty()),
            ("--oracle", self.oracle),
        ];
        match needing.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) if !self.is_asked_for() => {
                bail!("{flag} compares times: say what forwards cost, by --row-cost or --costs")
            }
            _ => Ok(()),
        }
    }
}

/// What forwards take in a replay.
struct Assumed {
    /// Above its column.
    name: String,
    row_cost: Option<f64>,
    target: RowTimes,
    /// Of neural drafters, largest first.
    drafters: Vec<RowTimes>,
}

/// What one cascade did with one cost of rows.
struct Outcome {
    name: String,
    row_cost: Option<f64>,
    /// Tokens, and times in forwards, of each record.
    records: Vec<(f64, f64)>,
    forwards: usize,
    drafted: usize,
}

impl Outcome {
    /// Tokens per forward of one row: plain decoding has 1.
    fn speedup(&self) -> f64 {
        Self::ratio(&self.records)
    }

    fn ratio<'r>(records: impl IntoIterator<Item = &'r (f64, f64)>) -> f64 {
        let sum = |sum: (f64, f64), record: &(f64, f64)| (sum.0 + record.0, sum.1 + record.1);
        let (tokens, time) = records.into_iter().fold((0.0, 0.0), sum);
        tokens / time
    }

    fn interval(&self) -> Option<(f64, f64)> {
        let records = &self.records;
        Bootstrap::default().interval(records.len(), |chosen| {
            Self::ratio(chosen.iter().map(|&at| &records[at]))
        })
    }

    fn tokens(&self) -> f64 {
        self.records.iter().map(|record| record.0).sum()
    }

    fn to_json(&self) -> Value {
        json!({
            "row_cost": self.row_cost,
            "speedup": self.speedup(),
            "interval": self.interval().map(|(low, high)| [low, high]),
            "mean_acceptance_length": self.tokens() / self.forwards as f64,
            "drafted_per_token": self.drafted as f64 / self.tokens(),
        })
    }
}

/// One row of the table.
struct Tried {
    name: String,
    outcomes: Vec<Outcome>,
}

/// How a cascade drafts.
enum Way {
    Configured,
    Length(usize),
    Oracle,
}

pub(super) fn run(args: &ReplayArgs, config: &Config, trace: &Arc<Trace>) -> Result<ExitCode> {
    if !args.assumed.lengths.is_empty() && config.drafters().len() != 1 {
        bail!(
            "--lengths: {} has {} drafters, and a fixed length needs exactly one; \
             write K matrices into configurations instead",
            config.label,
            config.drafters().len()
        );
    }
    for warning in &warnings(config, trace) {
        terminal::warn(warning);
    }
    let pool = config.pool(&AssembleOptions::default().with_device(args.device));
    let replays = Replays {
        costs: assumed(&args.assumed, config, trace)?,
        args,
        config,
        trace,
        pool,
    };
    interrupt::cooperate();
    let tried = replays.all()?;
    if interrupt::requested() {
        return Ok(interrupt::status());
    }
    match args.json {
        true => replays.print_json(&tried)?,
        false => replays.print(&tried)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What forwards take, in each column.
fn assumed(args: &AssumedArgs, config: &Config, trace: &Trace) -> Result<Vec<Assumed>> {
    if !args.files.is_empty() {
        return Ok(vec![of_files(&args.files, config, trace)?]);
    }
    let of = |&row: &f64| Assumed {
        name: row.to_string(),
        row_cost: Some(row),
        target: RowTimes::linear(FORWARD, row),
        drafters: {
            let drafters = args.drafter_cost.iter();
            drafters
                .map(|cost| RowTimes::linear(cost * FORWARD, row))
                .collect()
        },
    };
    Ok(args.row_cost.iter().map(of).collect())
}

/// The times of files, each for the model that it is of.
fn of_files(files: &[PathBuf], config: &Config, trace: &Trace) -> Result<Assumed> {
    let files = costs::open(files)?;
    let context = trace.typical_context();
    let of = |model: &str| -> Result<RowTimes> {
        let (name, file) = costs::of_model(&files, model)?;
        terminal::note(format_args!("{}", file.describe(name)));
        Ok(file.times(context))
    };
    let neural = config
        .drafters()
        .iter()
        .filter_map(|drafter| match drafter {
            Drafter::Neural { model, .. } => Some(model.source.to_string()),
            _ => None,
        });
    Ok(Assumed {
        name: "files".to_owned(),
        row_cost: None,
        target: of(&trace.header.model)?,
        drafters: neural.map(|model| of(&model)).collect::<Result<_>>()?,
    })
}

struct Replays<'a> {
    costs: Vec<Assumed>,
    args: &'a ReplayArgs,
    config: &'a Config,
    trace: &'a Arc<Trace>,
    pool: ModelPool,
}

impl Replays<'_> {
    fn all(&self) -> Result<Vec<Tried>> {
        let assumed = &self.args.assumed;
        let mut ways = vec![(self.config.schedule().name().to_owned(), Way::Configured)];
        ways.extend(
            assumed
                .lengths
                .iter()
                .map(|&length| (format!("{length} tokens"), Way::Length(length))),
        );
        if assumed.oracle {
            ways.push(("oracle".to_owned(), Way::Oracle));
        }
        let mut progress = Progress::new(ways.len() * self.costs.len(), "replays");
        let mut tried = Vec::with_capacity(ways.len());
        for (name, way) in ways {
            let mut outcomes = Vec::with_capacity(self.costs.len());
            for costs in &self.costs {
                if interrupt::requested() {
                    return Ok(tried);
                }
                outcomes.push(self.replay(&way, costs)?);
                progress.step();
            }
            tried.push(Tried { name, outcomes });
        }
        Ok(tried)
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        let records = self.trace.records.iter().skip(self.args.offset);
        let records = records.take(self.args.limit.unwrap_or(usize::MAX));
        records.filter(|record| !record.output.is_empty())
    }

    fn replay(&self, way: &Way, costs: &Assumed) -> Result<Outcome> {
        let clock = VirtualClock::default();
        let times = AssumedTimes {
            clock: clock.clone(),
            target: costs.target.clone(),
            drafters: costs.drafters.clone(),
        };
        let one = costs.target.seconds(1);
        let target = target(self.trace)?.with_times(times);
        let mut text: Option<OracleText> = None;
        let assembled = match way {
            Way::Configured => self.pool.assemble_with_target(self.config, target)?,
            Way::Length(length) => {
                let k = KMatrix::new(vec![vec![*length]], Convention::Added);
                let k = ScheduleConfig::Static(k.map_err(cascade_engine::Error::from)?);
                let config = without_rules(self.config).with_schedule(k)?;
                self.pool.assemble_with_target(&config, target)?
            }
            Way::Oracle => {
                let (oracle, handle) = Oracle::new();
                text = Some(handle);
                let config = without_rules(self.config);
                self.pool.assemble_with_schedule(&config, target, oracle)?
            }
        };
        let mut cascade = assembled.cascade;
        let options = self.config.generation.options();
        let mut outcome = Outcome {
            name: costs.name.clone(),
            row_cost: costs.row_cost,
            records: Vec::new(),
            forwards: 0,
            drafted: 0,
        };
        for record in self.records() {
            if let Some(text) = &text {
                text.set(&record.output);
            }
            let before = clock.now();
            let generation = replay(&mut cascade, record, &options)?;
            let time = clock.now().saturating_sub(before).as_secs_f64() / one;
            outcome.records.push((generation.tokens.len() as f64, time));
            outcome.forwards += generation.steps.len();
            outcome.drafted += generation.num_draft_tokens();
        }
        Ok(outcome)
    }

    /// The best of the fixed lengths for each cost.
    fn best_lengths(&self, tried: &[Tried]) -> Vec<Option<(String, f64)>> {
        let lengths: Vec<&Tried> = tried
            .iter()
            .skip(1)
            .take(self.args.assumed.lengths.len())
            .collect();
        let costs = 0..self.costs.len();
        costs
            .map(|at| {
                let speedups = lengths
                    .iter()
                    .map(|tried| (tried.name.clone(), tried.outcomes[at].speedup()));
                speedups.max_by(|a, b| a.1.total_cmp(&b.1))
            })
            .collect()
    }

    fn print(&self, tried: &[Tried]) -> Result<()> {
        let mut out = terminal::stdout();
        let header = &self.trace.header;
        writeln!(
            out,
            "replayed from {} ({} outputs of {}) with the drafters of {}.\nSpeedup over plain decoding \
             if {}, and drafting from statistics takes no time: an assumption, not a measurement\n",
            self.trace.label,
            header.provenance.as_str(),
            header.model,
            self.config.label,
            match self.args.assumed.files.is_empty() {
                true => "each further row of a forward adds the share above the column of a forward of one row",
                false => "forwards take the times of the files",
            }
        )?;
        let costs: String = self
            .costs
            .iter()
            .map(|costs| format!("{:>9}", costs.name))
            .collect();
        writeln!(out, "{:<24}{costs}", "")?;
        for tried in tried {
            let cells = tried.outcomes.iter().map(Outcome::speedup);
            writeln!(out, "{}", line(&tried.name, cells))?;
        }
        let best = self.best_lengths(tried);
        if best.iter().all(Option::is_some) && !best.is_empty() {
            let cells = best.iter().flatten().map(|best| best.1);
            writeln!(out, "{}", line("best length in hindsight", cells))?;
        }
        for outcome in &tried[0].outcomes {
            if let Some((low, high)) = outcome.interval() {
                writeln!(
                    out,
                    "\n{} at {}: {:.3} [{low:.3}, {high:.3}] (95% of resampled records), {:.2} tokens \
                     per forward, {:.2} drafted for each token",
                    tried[0].name,
                    outcome.name,
                    outcome.speedup(),
                    outcome.tokens() / outcome.forwards as f64,
                    outcome.drafted as f64 / outcome.tokens()
                )?;
            }
        }
        Ok(())
    }

    fn print_json(&self, tried: &[Tried]) -> Result<()> {
        let ways = tried.iter().map(|tried| {
            let outcomes = tried.outcomes.iter().map(Outcome::to_json);
            json!({ "drafts": tried.name, "outcomes": outcomes.collect::<Vec<_>>() })
        });
        let best = self.best_lengths(tried).into_iter();
        let best = best.map(|best| best.map(|(name, speedup)| json!([name, speedup])));
        let report = json!({
            "replayed": self.trace.label,
            "provenance": self.trace.header.provenance,
            "target": self.trace.header.model,
            "config": self.config.label,
            "assumed": true,
            "ways": ways.collect::<Vec<_>>(),
            "best_length_in_hindsight": best.collect::<Vec<_>>(),
        });
        writeln!(terminal::stdout(), "{report}")?;
        Ok(())
    }
}

fn line(name: &str, cells: impl Iterator<Item = f64>) -> String {
    let cells: String = cells.map(|speedup| format!("{speedup:>9.3}")).collect();
    format!("{name:<24}{cells}")
}

/// The configuration without stop rules: a fixed length and an oracle have their own.
fn without_rules(config: &Config) -> Config {
    let mut config = config.clone();
    for drafter in config.drafters_mut() {
        *drafter.stop_rule_mut() = None;
    }
    config
}
