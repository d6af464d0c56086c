//! `cascade bench step`: what the engine adds to the target's forwards, simulated.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use cascade_config::{AssembleOptions, Config, Drafter, StandIn};
use cascade_engine::{Cascade, GenerationOutput, Role};
use cascade_eval::median;
use cascade_eval::trace::{
    replay_timed, LookupLog, StepCost, TimedReplayScorer, Trace, TraceScorer,
};
use cascade_models::Session;
use clap::Args;
use serde::Serialize;

use super::options::{load_options, of_shape, ShapeArgs};

#[derive(Debug, Args)]
pub(crate) struct StepArgs {
    /// What the target says: a trace, plain or compressed by gzip.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// Configuration of the cascade, with statistical drafters alone.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    #[command(flatten)]
    shape: ShapeArgs,

    /// How many records to take. They are replayed twice, and timed the second time.
    #[arg(long, value_name = "N", default_value_t = 8)]
    limit: usize,

    /// What the shape computes in: f32, f16 or bf16. If not given, f32 on the CPU and bf16 on a GPU.
    #[arg(long, value_name = "DTYPE", requires = "shape")]
    dtype: Option<String>,

    /// Where to compute, in place of the configuration's device: cpu or cuda:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

/// Everything that was measured.
#[derive(Serialize)]
struct Measured {
    /// Always: what the target computes and what it says come from two models.
    simulated: bool,
    /// What computes.
    target: String,
    device: String,
    dtype: String,
    /// What was said.
    trace: String,
    config: String,
    records: usize,
    /// Steps that were timed.
    steps: usize,
    drafted_per_step: f64,
    tokens_per_step: f64,
    median_seconds: Parts,
    /// Median of the engine's own time by median of the forward's.
    overhead_share: f64,
    drafters: Vec<DrafterTime>,
}

/// Medians over steps.
#[derive(Serialize)]
struct Parts {
    forward: f64,
    drafting: f64,
    review: f64,
    emission: f64,
    /// All but the forward.
    overhead: f64,
}

/// What a drafter took according to the ledger, which is a part of drafting.
#[derive(Serialize)]
struct DrafterTime {
    name: String,
    mean_seconds: f64,
}

/// The model that computes.
struct Target {
    name: String,
    device: String,
    dtype: String,
    session: Session,
}

pub(super) fn run(args: &StepArgs) -> Result<()> {
    super::report(&measure(args)?, args.json, |out, measured| {
        show(out, measured)
    })
}

fn measure(args: &StepArgs) -> Result<Measured> {
    if args.limit == 0 {
        bail!("--limit must be 1 or more");
    }
    let config = Config::open(&args.config)?;
    refuse_neural_drafters(&config)?;
    let trace = Arc::new(Trace::open(&args.trace)?);
    let target = target(args, &config)?;
    let log = LookupLog::default();
    let recorded = TraceScorer::new(trace.clone())?;
    let scorer = TimedReplayScorer::new(target.session, recorded, log.clone())
        .with_context(|| format!("{} for {}", target.name, trace.label))?;
    let stand_in = StandIn {
        scorer,
        source: trace.label.clone(),
        vocabulary: trace.header.tokenizer(),
        eos: trace.header.eos.clone(),
    };
    let assembled = config.assemble_around(stand_in, &assemble_options(args))?;
    for warning in &assembled.warnings {
        eprintln!("warning: {warning}");
    }
    let run = replay_all(args, &config, &trace, assembled.cascade, &log)?;
    let parts = run.medians().with_context(|| {
        format!(
            "{}: no record has two steps, and the first one reads the prompt: take longer records",
            trace.label
        )
    })?;
    Ok(Measured {
        simulated: true,
        target: target.name,
        device: target.device,
        dtype: target.dtype,
        trace: trace.label.clone(),
        config: config.label.clone(),
        records: run.generations.len(),
        steps: run.costs.len(),
        drafted_per_step: run.drafted_per_step(),
        tokens_per_step: run.tokens_per_step(),
        overhead_share: parts.overhead / parts.forward,
        median_seconds: parts,
        drafters: run.drafters(),
    })
}

/// Their forwards are no overhead of the engine, and could not be told from it.
fn refuse_neural_drafters(config: &Config) -> Result<()> {
    let neural = |drafter: &&Drafter| matches!(drafter, Drafter::Neural { .. });
    match config.drafters.iter().find(neural) {
        None => Ok(()),
        Some(drafter) => bail!(
            "{}: the drafter `{}` is a neural model, and bench step times the engine around the target's forwards: take it out of \
             `drafters` and `k`, and leave Max-Gram, bigrams or prompt lookup",
            config.label,
            drafter.name()
        ),
    }
}

fn assemble_options(args: &StepArgs) -> AssembleOptions {
    AssembleOptions {
        device: args.device.clone(),
        ..AssembleOptions::default()
    }
}

/// The shape that was asked for, or the configuration's target.
fn target(args: &StepArgs, config: &Config) -> Result<Target> {
    let device = args.device.as_ref().unwrap_or(&config.device).clone();
    let Some(shape) = args.shape.shape()? else {
        let loaded = config.load_target(&assemble_options(args))?;
        return Ok(Target {
            session: loaded.session(),
            name: loaded.name,
            device,
            dtype: config.target.dtype.as_str().to_owned(),
        });
    };
    let options = load_options(&device, args.dtype.as_deref())?;
    Ok(Target {
        name: format!("{shape} with random weights"),
        device,
        dtype: options.dtype.as_str().to_owned(),
        session: of_shape(shape, &options)?.session(),
    })
}

/// What was timed.
struct Run {
    generations: Vec<GenerationOutput>,
    costs: Vec<StepCost>,
}

fn replay_all(
    args: &StepArgs,
    config: &Config,
    trace: &Trace,
    mut cascade: Cascade,
    log: &LookupLog,
) -> Result<Run> {
    let mut run = Run {
        generations: Vec::new(),
        costs: Vec::new(),
    };
    // The first pass warms up: memory, caches, what a GPU records for each number of rows.
    for timed in [false, true] {
        for record in trace.records.iter().take(args.limit) {
            let (generation, costs) = replay_timed(&mut cascade, record, &config.options, log)?;
            if timed {
                run.generations.push(generation);
                run.costs.extend(costs);
            }
        }
    }
    Ok(run)
}

impl Run {
    /// Of the steps that were timed.
    fn drafted_per_step(&self) -> f64 {
        let drafted: usize = self.costs.iter().map(|cost| cost.step.drafted).sum();
        drafted as f64 / self.costs.len() as f64
    }

    /// Of all steps: which tokens a step gave is known of whole records.
    fn tokens_per_step(&self) -> f64 {
        let tokens: usize = self.generations.iter().map(|g| g.tokens.len()).sum();
        tokens as f64 / self.steps() as f64
    }

    fn steps(&self) -> usize {
        self.generations.iter().map(|g| g.steps.len()).sum()
    }

    /// `None` if there are no steps.
    fn medians(&self) -> Option<Parts> {
        let of = |part: fn(&StepCost) -> Duration| {
            let seconds = self.costs.iter().map(|cost| part(cost).as_secs_f64());
            median(seconds.collect())
        };
        Some(Parts {
            forward: of(|cost| cost.timings.forward)?,
            drafting: of(|cost| cost.timings.drafting)?,
            review: of(|cost| cost.timings.verification)?,
            emission: of(|cost| cost.timings.emission)?,
            overhead: of(|cost| cost.timings.overhead())?,
        })
    }

    /// Means over all steps, the first ones of records included: the ledger has sums.
    fn drafters(&self) -> Vec<DrafterTime> {
        let models = self.generations.first().map_or(&[][..], |g| &g.models);
        let drafters = models
            .iter()
            .enumerate()
            .filter(|(_, model)| model.role == Role::Statistical);
        let time = |index: usize| -> Duration {
            let times = self.generations.iter().map(|g| g.models[index].usage.time);
            times.sum()
        };
        drafters
            .map(|(index, model)| DrafterTime {
                name: model.name.clone(),
                mean_seconds: time(index).as_secs_f64() / self.steps() as f64,
            })
            .collect()
    }
}

fn show(out: &mut impl Write, measured: &Measured) -> Result<()> {
    writeln!(
        out,
        "simulated: {} computes on {} in {}, and {} answers; drafted for by {}",
        measured.target, measured.device, measured.dtype, measured.trace, measured.config
    )?;
    writeln!(
        out,
        "{} steps of {} records, {:.2} tokens drafted and {:.3} emitted per step\n",
        measured.steps, measured.records, measured.drafted_per_step, measured.tokens_per_step
    )?;
    let parts = &measured.median_seconds;
    writeln!(out, "{:<28}{:>12}{:>12}", "median of a step", "µs", "share")?;
    for (name, seconds) in [
        ("the target's forward", parts.forward),
        ("drafting", parts.drafting),
        ("review", parts.review),
        ("emission", parts.emission),
        ("the engine: all but forward", parts.overhead),
    ] {
        let share = 100.0 * seconds / parts.forward;
        writeln!(out, "{name:<28}{:>12.2}{share:>11.3}%", 1e6 * seconds)?;
    }
    for drafter in &measured.drafters {
        writeln!(
            out,
            "\nof drafting, {} itself takes {:.2} µs on average",
            drafter.name,
            1e6 * drafter.mean_seconds
        )?;
    }
    Ok(())
}
