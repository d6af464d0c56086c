//! `cascade bench step`: engine overhead per step, with simulated acceptance.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use cascade_config::{AssembleOptions, Config, DeviceSpec, Drafter, ModelPool};
use cascade_engine::{Cascade, GenerationOutput, Role};
use cascade_eval::median;
use cascade_eval::trace::{
    replay_timed, LookupLog, StepCost, TimedReplayScorer, Trace, TraceScorer,
};
use cascade_models::Session;
use clap::Args;
use serde::Serialize;

use super::options::{load_options, of_shape, ShapeArgs};
use crate::job;

#[derive(Debug, Args)]
pub(crate) struct StepArgs {
    /// Trace with the target's outputs, plain or gzip.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// Configuration of the cascade, with statistical drafters only.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    #[command(flatten)]
    shape: ShapeArgs,

    /// Maximum number of records. Each is replayed twice; the second replay is timed.
    #[arg(long, value_name = "N", default_value_t = 8)]
    limit: usize,

    /// Data type of the shape: f32, f16 or bf16; on the CPU also q8_0 or q4_0 [default: f32 on the
    /// CPU, bf16 on a GPU].
    #[arg(long, value_name = "DTYPE", requires = "shape")]
    dtype: Option<String>,

    /// Device, overriding the configuration: auto, cpu or cuda:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

/// All measurements.
#[derive(Serialize)]
struct Measured {
    /// Always true: the forwards and the tokens come from different models.
    simulated: bool,
    /// The model whose forwards are timed.
    target: String,
    device: String,
    dtype: String,
    /// The trace whose tokens are emitted.
    trace: String,
    config: String,
    records: usize,
    /// Steps that were timed.
    steps: usize,
    drafted_per_step: f64,
    tokens_per_step: f64,
    median_seconds: Parts,
    /// Median engine time divided by median forward time.
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
    /// Everything but the forward.
    overhead: f64,
}

/// A drafter's own time according to the ledger, part of drafting.
#[derive(Serialize)]
struct DrafterTime {
    name: String,
    mean_seconds: f64,
}

/// The model whose forwards are timed.
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
    let pool = config.pool(&AssembleOptions::default().with_device(args.device));
    let target = target(args, &config, &pool)?;
    let log = LookupLog::default();
    let recorded = TraceScorer::new(trace.clone())?;
    let scorer = TimedReplayScorer::new(target.session, recorded, log.clone())
        .with_context(|| format!("{} for {}", target.name, trace.label))?;
    let replayed = cascade_config::Target::new(scorer, &trace.label, trace.header.tokenizer())
        .with_eos(trace.header.eos.iter().copied());
    let assembled = pool.assemble_with_target(&config, replayed)?;
    job::say(&assembled);
    let run = replay_all(args, &config, &trace, assembled.cascade, &log)?;
    let parts = run.medians().with_context(|| {
        format!(
            "{}: no record has two steps, and the first step, which reads the prompt, is excluded; use longer records",
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

/// Forwards of neural drafters are not engine overhead, and could not be separated from it.
fn refuse_neural_drafters(config: &Config) -> Result<()> {
    let neural = |drafter: &&Drafter| matches!(drafter, Drafter::Neural { .. });
    match config.drafters().iter().find(neural) {
        None => Ok(()),
        Some(drafter) => bail!(
            "{}: the drafter `{}` is a neural model, but bench step times the engine around the target's \
             forwards only; remove it from `drafters` and `k`, and keep statistical drafters",
            config.label,
            drafter.name()
        ),
    }
}

/// The given shape, or the configuration's target.
fn target(args: &StepArgs, config: &Config, pool: &ModelPool) -> Result<Target> {
    let device = pool.device(&config.target)?.spec.to_string();
    let Some(shape) = args.shape.shape()? else {
        let loaded = pool.target(config)?;
        return Ok(Target {
            session: loaded.session(),
            name: loaded.name.clone(),
            device,
            dtype: loaded.dtype.as_str().to_owned(),
        });
    };
    let options = load_options(&device, args.dtype.as_deref(), None)?;
    Ok(Target {
        name: format!("{shape} with random weights"),
        device,
        dtype: options.dtype.as_str().to_owned(),
        session: of_shape(shape, &options)?.session(),
    })
}

/// Timed steps and their generations.
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
    let options = config.generation.options();
    // The first pass warms up memory, caches, and the GPU's graphs for each number of rows.
    for timed in [false, true] {
        for record in trace.records.iter().take(args.limit) {
            let (generation, costs) = replay_timed(&mut cascade, record, &options, log)?;
            if timed {
                run.generations.push(generation);
                run.costs.extend(costs);
            }
        }
    }
    Ok(run)
}

impl Run {
    /// Over timed steps.
    fn drafted_per_step(&self) -> f64 {
        let drafted: usize = self.costs.iter().map(|cost| cost.step.drafted).sum();
        drafted as f64 / self.costs.len() as f64
    }

    /// Over all steps: emitted tokens are known per record, not per step.
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

    /// Means over all steps, including the first of each record: the ledger has totals only.
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
        "simulated: {} on {} in {}; tokens of {}; drafters of {}",
        measured.target, measured.device, measured.dtype, measured.trace, measured.config
    )?;
    writeln!(
        out,
        "{} steps of {} records; per step {:.2} tokens drafted, {:.3} emitted\n",
        measured.steps, measured.records, measured.drafted_per_step, measured.tokens_per_step
    )?;
    let parts = &measured.median_seconds;
    writeln!(out, "{:<28}{:>12}{:>12}", "median per step", "µs", "share")?;
    for (name, seconds) in [
        ("target forward", parts.forward),
        ("drafting", parts.drafting),
        ("verification", parts.review),
        ("emission", parts.emission),
        ("engine (all but forward)", parts.overhead),
    ] {
        let share = 100.0 * seconds / parts.forward;
        writeln!(out, "{name:<28}{:>12.2}{share:>11.3}%", 1e6 * seconds)?;
    }
    for drafter in &measured.drafters {
        writeln!(
            out,
            "\ndrafter {}: {:.2} µs per step on average, part of drafting",
            drafter.name,
            1e6 * drafter.mean_seconds
        )?;
    }
    Ok(())
}
