//! `cascade-lab bench step`: walltime and engine overhead of recorded answers, with timed forwards.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cascade_config::{AssembleOptions, Config, DeviceSpec};
use cascade_models::parse_device;
use cascade_traces::trace::Trace;
use cascade_traces::{
    DrafterShape, MeasuredCascade, SimulatedModel, SoFar, StepBench, StepTimes, TimedTarget,
};
use clap::{Args, Subcommand};

use crate::bench::options::{ShapeArgs, bandwidth, known, load_options, of_shape};
use crate::columns::{row, table};
use crate::exit::ExitCode;
use crate::{bench, interrupt, job, terminal};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time cascades and plain decoding over recorded answers, and the engine's overhead per step.
    ///
    /// The target computes every forward, but a recorded trace answers in its place, so acceptance
    /// is that of the recording whatever the target's weights. The configurations' drafters draft
    /// as usual, and those that --drafter names are simulated. Greedy; tokens only, no text is
    /// decoded. The first step of each record, which reads the prompt, is excluded. Cascades and
    /// plain decoding take turns, record by record; after each record, what has been measured so
    /// far is printed to standard error.
    Step(StepArgs),
}

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
        requires = "random_weights",
        value_parser = drafter_shape
    )]
    drafter: Vec<DrafterShape>,

    /// Device, overriding the configuration: auto, cpu, cuda:N or metal:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

fn drafter_shape(text: &str) -> Result<DrafterShape, String> {
    let form = || format!("`{text}` is not of the form NAME=SHAPE:ACCEPTANCE[:DTYPE]");
    let (name, rest) = text.split_once('=').ok_or_else(form)?;
    let parts: Vec<&str> = rest.split(':').collect();
    let (shape, acceptance, dtype) = match parts[..] {
        [shape, acceptance] => (shape, acceptance, None),
        [shape, acceptance, dtype] => (shape, acceptance, Some(dtype)),
        _ => return Err(form()),
    };
    let number = |_| format!("`{acceptance}` is not a probability");
    Ok(DrafterShape {
        name: name.to_owned(),
        shape: known(shape)?,
        acceptance: acceptance.parse().map_err(number)?,
        dtype: dtype.map(str::to_owned),
    })
}

pub(crate) fn run(command: &BenchCommand) -> Result<ExitCode> {
    let BenchCommand::Step(args) = command;
    let measured = measure(args)?;
    bench::report(&measured, args.json, show)?;
    Ok(if interrupt::requested() {
        interrupt::status()
    } else {
        ExitCode::SUCCESS
    })
}

fn measure(args: &StepArgs) -> Result<StepTimes> {
    if args.limit == 0 {
        bail!("--limit must be 1 or more");
    }
    let configs = configs(args)?;
    let target = target(args, &configs[0])?;
    let bench = StepBench {
        configs: &configs,
        options: &AssembleOptions::default().with_device(args.device),
        trace: &Arc::new(Trace::open(&args.trace)?),
        target: &target,
        simulated: &simulated(args, &target)?,
        limit: args.limit,
        memory: bandwidth(&parse_device(&target.device)?)
            .context("the bandwidth of a GPU's memory is not measured: give --device cpu")?,
    };
    let mut cascades = 0;
    let on_assembled = |assembled: &_| {
        job::say(assembled);
        cascades += 1;
        // From the first record on; plain decoding is one of them.
        if cascades > configs.len() {
            interrupt::cooperate();
        }
    };
    let measured = bench.run(on_assembled, |so_far| {
        say(so_far);
        if interrupt::requested() && so_far.done < so_far.all {
            let SoFar { done, all, .. } = so_far;
            terminal::note(format_args!("interrupted after {done} of {all} records"));
        }
        interrupt::unless_requested()
    });
    Ok(measured?)
}

/// Configurations of one target.
fn configs(args: &StepArgs) -> Result<Vec<Config>> {
    let configs = args
        .config
        .iter()
        .map(Config::open)
        .collect::<Result<Vec<_>, _>>()?;
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
fn target(args: &StepArgs, config: &Config) -> Result<TimedTarget> {
    let pool = config.pool(&AssembleOptions::default().with_device(args.device));
    let device = pool.device(&config.target)?.spec.to_string();
    let Some(shape) = args.shape.shape()? else {
        let loaded = pool.target(config)?;
        return Ok(TimedTarget {
            model: loaded.model.clone(),
            name: loaded.name.clone(),
            device,
            dtype: loaded.dtype.as_str().to_owned(),
        });
    };
    let options = load_options(None, &device, args.dtype.as_deref(), None)?;
    Ok(TimedTarget {
        name: format!("{shape} with random weights"),
        device,
        dtype: options.dtype.as_str().to_owned(),
        model: of_shape(shape, &options)?,
    })
}

/// Models for drafters that are simulated, each with its weights once.
fn simulated(args: &StepArgs, target: &TimedTarget) -> Result<Vec<SimulatedModel>> {
    let simulated = args.drafter.iter().map(|drafter| {
        let dtype = drafter.dtype.as_deref().unwrap_or(&target.dtype);
        let options = load_options(None, &target.device, Some(dtype), None)?;
        Ok(SimulatedModel {
            model: of_shape(&drafter.shape, &options)?,
            drafter: drafter.clone(),
        })
    });
    simulated.collect()
}

/// Speeds over the records so far, to standard error.
fn say(so_far: &SoFar<'_>) {
    let Some(plain) = so_far.plain else {
        return;
    };
    let cascades = so_far
        .cascades
        .iter()
        .map(|(config, speedup)| format!(", {config} × {speedup:.2}"));
    terminal::note(format_args!(
        "record {} of {} ({}): plain decoding {plain:.2} tokens/s{}",
        so_far.done,
        so_far.all,
        so_far.record,
        cascades.collect::<String>()
    ));
}

fn show(out: &mut impl Write, measured: &StepTimes) -> Result<()> {
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
    let mut rows = vec![row(["tokens/s", "× plain", "× memory", "cascade"])];
    let plain = ("plain decoding", &measured.plain, 1.0);
    let cascades = measured
        .cascades
        .iter()
        .map(|c| (c.config.as_str(), &c.walltime, c.speedup));
    for (name, walltime, speedup) in std::iter::once(plain).chain(cascades) {
        let speed = walltime.tokens_per_second;
        let over_memory = speed / measured.memory_bound;
        let numbers = [speed, speedup, over_memory].map(|number| format!("{number:.2}"));
        rows.push([&numbers[..], &[name.to_owned()]].concat());
    }
    write!(out, "{}", table(">>><", &rows))?;
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
    let mut rows = vec![row(["median per step", "µs", "of the forward"])];
    for (name, seconds) in [
        ("target forward", parts.forward),
        ("drafting", parts.drafting),
        ("verification", parts.review),
        ("emission", parts.emission),
        ("all but the target's forward", parts.overhead),
    ] {
        let share = 100.0 * seconds / parts.forward;
        let (seconds, share) = (format!("{:.2}", 1e6 * seconds), format!("{share:.3}%"));
        rows.push(row([name, &seconds, &share]));
    }
    write!(out, "{}", table("<>", &rows))?;
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
