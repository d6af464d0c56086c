//! `cascade bench step`: walltime and engine overhead of recorded answers, with timed forwards.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use cascade_config::{AssembleOptions, Config, DeviceSpec, Drafter, StandIn};
use cascade_engine::{Cascade, GenerationOutput, Role};
use cascade_eval::median;
use cascade_eval::trace::{
    replay_timed, LookupLog, Record, SimulatedDrafter, StepCost, TimedReplayScorer, Trace,
    TraceScorer,
};
use cascade_models::{parse_device, Model};
use clap::Args;
use serde::Serialize;

use super::options::{bandwidth, known, load_options, of_shape, ShapeArgs};
use crate::{interrupt, job, terminal};

#[derive(Debug, Args)]
pub(crate) struct StepArgs {
    /// Trace with the target's outputs, plain or gzip.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// Configuration of a cascade. May be repeated: all of one target.
    #[arg(long, value_name = "FILE", required = true)]
    config: Vec<PathBuf>,

    #[command(flatten)]
    shape: ShapeArgs,

    /// Maximum number of records, spread evenly over the trace.
    #[arg(long, value_name = "N", default_value_t = 8)]
    limit: usize,

    /// Data type of the shape: f32, f16 or bf16; also q8_0, and q4_0 on the CPU [default: f32 on
    /// the CPU, bf16 on a GPU].
    #[arg(long, value_name = "DTYPE", requires = "shape")]
    dtype: Option<String>,

    /// A shape with random weights in place of the neural drafter NAME of the configurations, and
    /// the probability with which it drafts the recorded token, such as base=vicuna-68m:0.6. A data
    /// type may follow; otherwise it has the target's. May be repeated.
    #[arg(
        long,
        value_name = "NAME=SHAPE:ACCEPTANCE[:DTYPE]",
        requires = "random_weights"
    )]
    drafter: Vec<DrafterShape>,

    /// Device, overriding the configuration: auto, cpu or cuda:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

/// A neural drafter of a shape, which is right as often as one that was measured elsewhere.
#[derive(Clone, Debug, Serialize)]
struct DrafterShape {
    name: String,
    shape: String,
    acceptance: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dtype: Option<String>,
}

impl FromStr for DrafterShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}` is not of the form NAME=SHAPE:ACCEPTANCE[:DTYPE]");
        let (name, rest) = text.split_once('=').ok_or_else(form)?;
        let parts: Vec<&str> = rest.split(':').collect();
        let (shape, acceptance, dtype) = match parts[..] {
            [shape, acceptance] => (shape, acceptance, None),
            [shape, acceptance, dtype] => (shape, acceptance, Some(dtype)),
            _ => return Err(form()),
        };
        let number = |_| format!("`{acceptance}` is not a probability");
        Ok(Self {
            name: name.to_owned(),
            shape: known(shape)?,
            acceptance: acceptance.parse().map_err(number)?,
            dtype: dtype.map(str::to_owned),
        })
    }
}

/// All measurements.
#[derive(Serialize)]
struct Measured {
    /// Always true: the forwards and the tokens come from different models.
    simulated: bool,
    /// Neural drafters that are simulated.
    simulated_drafters: Vec<DrafterShape>,
    /// The model whose forwards are timed.
    target: String,
    device: String,
    dtype: String,
    /// The trace whose tokens are emitted.
    trace: String,
    records: usize,
    /// Bytes of weights that a forward reads.
    bytes_per_forward: usize,
    /// Read bandwidth of the device's memory.
    memory_bytes_per_second: f64,
    /// Tokens a second at which memory delivers all weights for each token: the bound of plain
    /// decoding.
    memory_bound: f64,
    plain: Walltime,
    cascades: Vec<MeasuredCascade>,
}

/// Speed over all timed steps together.
#[derive(Serialize)]
struct Walltime {
    tokens: usize,
    seconds: f64,
    tokens_per_second: f64,
}

#[derive(Serialize)]
struct MeasuredCascade {
    config: String,
    /// Steps that were timed.
    steps: usize,
    drafted_per_step: f64,
    tokens_per_step: f64,
    walltime: Walltime,
    /// Tokens a second relative to plain decoding, of the same tokens in the same run.
    speedup: f64,
    median_seconds: Parts,
    /// Median of everything but the target's forward, divided by that of the forward.
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
    /// Everything but the target's forward.
    overhead: f64,
}

/// A drafter's own time according to the ledger, part of drafting: the forwards of a neural one.
#[derive(Serialize)]
struct DrafterTime {
    name: String,
    neural: bool,
    mean_seconds: f64,
}

/// The model whose forwards are timed.
struct Target {
    name: String,
    device: String,
    dtype: String,
    model: Arc<Model>,
}

pub(super) fn run(args: &StepArgs) -> Result<ExitCode> {
    let measured = measure(args)?;
    super::report(&measured, args.json, show)?;
    Ok(match interrupt::requested() {
        true => interrupt::status(),
        false => ExitCode::SUCCESS,
    })
}

fn measure(args: &StepArgs) -> Result<Measured> {
    if args.limit == 0 {
        bail!("--limit must be 1 or more");
    }
    let configs = configs(args)?;
    let trace = Arc::new(Trace::open(&args.trace)?);
    let target = target(args, &configs[0])?;
    let stand_ins = stand_ins(args, &configs, &trace, &target)?;
    let memory = bandwidth(&parse_device(&target.device)?)?.0;
    let mut plain = Decoder::new(args, configs[0].plain(), &trace, &target, &[])?;
    let decoders = configs.into_iter();
    let decoders = decoders.map(|config| Decoder::new(args, config, &trace, &target, &stand_ins));
    let mut cascades = decoders.collect::<Result<Vec<_>>>()?;
    let records = replay_all(args, &trace, &mut plain, &mut cascades)?;
    let plain = plain.run.walltime().with_context(|| too_short(&trace))?;
    let measured = cascades.iter().map(|cascade| cascade.measured(&plain));
    let bytes = target.model.bytes_per_forward(1);
    Ok(Measured {
        simulated: true,
        simulated_drafters: args.drafter.clone(),
        target: target.name,
        device: target.device,
        dtype: target.dtype,
        trace: trace.label.clone(),
        records,
        bytes_per_forward: bytes,
        memory_bytes_per_second: memory,
        memory_bound: memory / bytes as f64,
        cascades: measured
            .collect::<Option<_>>()
            .with_context(|| too_short(&trace))?,
        plain,
    })
}

fn too_short(trace: &Trace) -> String {
    format!(
        "{}: no record has two steps, and the first step, which reads the prompt, is excluded; use longer records",
        trace.label
    )
}

/// Configurations of one target.
fn configs(args: &StepArgs) -> Result<Vec<Config>> {
    let configs = args.config.iter().map(Config::open);
    let configs = configs.collect::<Result<Vec<_>, _>>()?;
    for config in &configs {
        if args.shape.shape()?.is_none() && config.target != configs[0].target {
            bail!(
                "{} and {} have different targets; bench step times one, with several cascades around it",
                configs[0].label,
                config.label
            );
        }
    }
    Ok(configs)
}

/// The given shape, or the configuration's target.
fn target(args: &StepArgs, config: &Config) -> Result<Target> {
    let pool = config.pool(&AssembleOptions::default().with_device(args.device));
    let device = pool.device(&config.target)?.spec.to_string();
    let Some(shape) = args.shape.shape()? else {
        let loaded = pool.target(config)?;
        return Ok(Target {
            model: loaded.model.clone(),
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
        model: of_shape(shape, &options)?,
    })
}

/// What stands for neural drafters, by their names. Each has its weights once.
fn stand_ins(
    args: &StepArgs,
    configs: &[Config],
    trace: &Arc<Trace>,
    target: &Target,
) -> Result<Vec<(String, StandIn)>> {
    let simulated = args.drafter.iter();
    simulated
        .map(|drafter| {
            let mut all = configs.iter().flat_map(Config::drafters);
            let is_meant =
                |own: &Drafter| matches!(own, Drafter::Neural { .. }) && own.name() == drafter.name;
            if !all.any(is_meant) {
                bail!(
                    "--drafter {}: no configuration has a neural drafter of this name",
                    drafter.name
                );
            }
            Ok((drafter.name.clone(), stand_in(drafter, trace, target)?))
        })
        .collect()
}

fn stand_in(drafter: &DrafterShape, trace: &Arc<Trace>, target: &Target) -> Result<StandIn> {
    let dtype = drafter.dtype.as_deref().unwrap_or(&target.dtype);
    let model = of_shape(
        &drafter.shape,
        &load_options(&target.device, Some(dtype), None)?,
    )?;
    let recorded = TraceScorer::new(trace.clone())?;
    let source = format!(
        "{} with random weights, acceptance {}",
        drafter.shape, drafter.acceptance
    );
    let acceptance = drafter.acceptance;
    // Refuses what cannot stand in; the sessions are made of the same.
    SimulatedDrafter::new(model.session(), recorded.clone(), acceptance)
        .with_context(|| format!("--drafter {}: {source} for {}", drafter.name, trace.label))?;
    Ok(StandIn {
        source,
        parameters: model.num_parameters(),
        session: Arc::new(move || {
            let scorer = SimulatedDrafter::new(model.session(), recorded.clone(), acceptance);
            Box::new(scorer.expect("it has been checked"))
        }),
    })
}

/// A cascade, or plain decoding, around the target.
struct Decoder {
    config: Config,
    cascade: Cascade,
    log: LookupLog,
    run: Run,
}

impl Decoder {
    fn new(
        args: &StepArgs,
        config: Config,
        trace: &Arc<Trace>,
        target: &Target,
        stand_ins: &[(String, StandIn)],
    ) -> Result<Self> {
        let log = LookupLog::default();
        let recorded = TraceScorer::new(trace.clone())?;
        let scorer = TimedReplayScorer::new(target.model.session(), recorded, log.clone())
            .with_context(|| format!("{} for {}", target.name, trace.label))?;
        let replayed = cascade_config::Target::new(scorer, &trace.label, trace.header.tokenizer())
            .with_eos(trace.header.eos.iter().copied());
        let pool = config.pool(&AssembleOptions::default().with_device(args.device));
        let pool = stand_ins.iter().fold(pool, |pool, (name, stand_in)| {
            pool.with_stand_in(name, stand_in.clone())
        });
        let assembled = pool.assemble_with_target(&config, replayed)?;
        job::say(&assembled);
        Ok(Self {
            cascade: assembled.cascade,
            config,
            log,
            run: Run::default(),
        })
    }

    fn replay(&mut self, record: &Record) -> Result<()> {
        let options = self.config.generation.options();
        let (generation, costs) = replay_timed(&mut self.cascade, record, &options, &self.log)?;
        self.run.generations.push(generation);
        self.run.costs.extend(costs);
        Ok(())
    }

    /// `None` if there are no steps.
    fn measured(&self, plain: &Walltime) -> Option<MeasuredCascade> {
        let (run, parts, walltime) = (&self.run, self.run.medians()?, self.run.walltime()?);
        Some(MeasuredCascade {
            config: self.config.label.clone(),
            steps: run.costs.len(),
            drafted_per_step: run.drafted_per_step(),
            tokens_per_step: run.tokens_per_step(),
            speedup: walltime.tokens_per_second / plain.tokens_per_second,
            walltime,
            overhead_share: parts.overhead / parts.forward,
            median_seconds: parts,
            drafters: run.drafters(),
        })
    }
}

/// Timed steps and their generations.
#[derive(Default)]
struct Run {
    generations: Vec<GenerationOutput>,
    costs: Vec<StepCost>,
}

/// Plain decoding and all cascades take turns, record by record, so that what else the machine does
/// meets all of them. Ctrl-C ends it after the record that has begun. Returns how many records were
/// replayed.
fn replay_all(
    args: &StepArgs,
    trace: &Trace,
    plain: &mut Decoder,
    cascades: &mut [Decoder],
) -> Result<usize> {
    let records = trace.spread(args.limit);
    let count = records.len();
    interrupt::cooperate();
    for (done, record) in records.enumerate() {
        if interrupt::requested() {
            return stopped(done, count);
        }
        plain.replay(record)?;
        for cascade in cascades.iter_mut() {
            cascade.replay(record)?;
        }
        let place = format!("record {} of {count} ({})", done + 1, record.id);
        say_so_far(&place, &plain.run, cascades);
    }
    Ok(count)
}

fn stopped(done: usize, all: usize) -> Result<usize> {
    if done == 0 {
        bail!("interrupted before the first record was done");
    }
    terminal::note(format_args!("interrupted after {done} of {all} records"));
    Ok(done)
}

/// Speeds over the records so far, to standard error.
fn say_so_far(place: &str, plain: &Run, cascades: &[Decoder]) {
    let Some(plain) = plain.walltime() else {
        return;
    };
    let mut line = format!(
        "{place}: plain decoding {:.2} tokens/s",
        plain.tokens_per_second
    );
    for cascade in cascades {
        if let Some(walltime) = cascade.run.walltime() {
            let speedup = walltime.tokens_per_second / plain.tokens_per_second;
            line += &format!(", {} × {speedup:.2}", cascade.config.label);
        }
    }
    terminal::note(format_args!("{line}"));
}

impl Run {
    /// `None` if there are no steps.
    fn walltime(&self) -> Option<Walltime> {
        let tokens: usize = self.costs.iter().map(|cost| cost.step.accepted + 1).sum();
        let seconds: Duration = self.costs.iter().map(|cost| cost.timings.total()).sum();
        let seconds = seconds.as_secs_f64();
        (tokens > 0).then(|| Walltime {
            tokens,
            seconds,
            tokens_per_second: tokens as f64 / seconds,
        })
    }

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
            .filter(|(_, model)| model.role != Role::Target);
        let time = |index: usize| -> Duration {
            let times = self.generations.iter().map(|g| g.models[index].usage.time);
            times.sum()
        };
        drafters
            .map(|(index, model)| DrafterTime {
                name: model.name.clone(),
                neural: model.role == Role::Drafter,
                mean_seconds: time(index).as_secs_f64() / self.steps() as f64,
            })
            .collect()
    }
}

fn show(out: &mut impl Write, measured: &Measured) -> Result<()> {
    writeln!(
        out,
        "replayed: tokens of {}, {} records; forwards of {} on {} in {}",
        measured.trace, measured.records, measured.target, measured.device, measured.dtype
    )?;
    let (bytes, memory) = (measured.bytes_per_forward, measured.memory_bytes_per_second);
    writeln!(
        out,
        "a forward reads {:.3} GiB of weights; memory is read at {:.1} GB/s, {:.2} times a second all of them\n",
        bytes as f64 / (1u64 << 30) as f64,
        memory / 1e9,
        measured.memory_bound
    )?;
    writeln!(
        out,
        "{:>9}{:>9}{:>12}  cascade",
        "tokens/s", "× plain", "× memory"
    )?;
    let plain = ("plain decoding", &measured.plain, 1.0);
    let cascades = measured.cascades.iter();
    let cascades = cascades.map(|c| (c.config.as_str(), &c.walltime, c.speedup));
    for (name, walltime, speedup) in std::iter::once(plain).chain(cascades) {
        let speed = walltime.tokens_per_second;
        let over_memory = speed / measured.memory_bound;
        writeln!(out, "{speed:>9.2}{speedup:>9.2}{over_memory:>12.2}  {name}")?;
    }
    for cascade in &measured.cascades {
        show_steps(out, cascade)?;
    }
    Ok(())
}

fn show_steps(out: &mut impl Write, cascade: &MeasuredCascade) -> Result<()> {
    writeln!(
        out,
        "\n{}: {} steps; per step {:.2} tokens drafted, {:.3} emitted\n",
        cascade.config, cascade.steps, cascade.drafted_per_step, cascade.tokens_per_step
    )?;
    let parts = &cascade.median_seconds;
    writeln!(out, "{:<30}{:>12}{:>12}", "median per step", "µs", "share")?;
    for (name, seconds) in [
        ("target forward", parts.forward),
        ("drafting", parts.drafting),
        ("verification", parts.review),
        ("emission", parts.emission),
        ("all but the target's forward", parts.overhead),
    ] {
        let share = 100.0 * seconds / parts.forward;
        writeln!(out, "{name:<30}{:>12.2}{share:>11.3}%", 1e6 * seconds)?;
    }
    for drafter in &cascade.drafters {
        writeln!(
            out,
            "\ndrafter {}: {:.2} µs per step on average{}, part of drafting",
            drafter.name,
            1e6 * drafter.mean_seconds,
            if drafter.neural {
                " in its forwards"
            } else {
                ""
            }
        )?;
    }
    Ok(())
}
