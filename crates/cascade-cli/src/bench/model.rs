//! `cascade bench model`: what forwards cost on this machine.

use std::io::Write;
use std::sync::Arc;

use anyhow::{bail, Result};
use cascade_config::model_source;
use cascade_core::Architecture;
use cascade_eval::{read_bandwidth, ForwardBench, ForwardCost};
use cascade_models::{load, Device, LoadOptions, Model, Session};
use clap::{ArgGroup, Args};
use serde::Serialize;

use super::options::{load_options, of_shape, ShapeArgs};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("measured").required(true).args(["model", "shape"])))]
pub(crate) struct ModelArgs {
    /// A folder, a model of the hub (org/name or org/name@revision), or embedded:NAME.
    #[arg(value_name = "MODEL")]
    model: Option<String>,

    #[command(flatten)]
    shape: ShapeArgs,

    /// Rows of one forward: 1 is plain decoding, n + 1 checks a draft of n tokens.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64])]
    rows: Vec<usize>,

    /// Tokens of context before the rows.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_values_t = [128, 512, 2048])]
    contexts: Vec<usize>,

    /// Tokens of the source, for encoder-decoder models.
    #[arg(long, value_name = "N", default_value_t = 128)]
    source: usize,

    /// Forwards of which the median is taken.
    #[arg(long, value_name = "N", default_value_t = 9)]
    repeats: usize,

    /// What to compute in: f32, f16 or bf16. If not given, f32 on the CPU and bf16 on a GPU.
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,

    /// Where to compute: cpu or cuda:N.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,

    /// On a GPU: also measure what the launches of a forward take by purpose, in the last context.
    #[arg(long)]
    profile: bool,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

/// Everything that was measured.
#[derive(Serialize)]
struct Measured {
    model: String,
    random_weights: bool,
    device: String,
    dtype: String,
    parameters: usize,
    /// Layers that a forward goes through.
    layers: usize,
    /// Weights that one forward reads.
    bytes_per_forward: usize,
    /// Tokens of the source, if there is one.
    source: Option<usize>,
    /// Read from the device's memory, by all its processors together.
    memory_bytes_per_second: f64,
    /// Read and written by a copy, on a GPU.
    copy_bytes_per_second: Option<f64>,
    /// The most bytes that the model took, on a GPU; that this process took, on the CPU, if the system tells.
    peak_memory_bytes: Option<usize>,
    forwards: Vec<Forward>,
    /// If asked for, on a GPU.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    profiles: Vec<Profile>,
}

/// Where a forward's time goes.
#[derive(Serialize)]
struct Profile {
    context: usize,
    rows: usize,
    forward_seconds: f64,
    /// As many launches as the forward has, that do nothing.
    empty_launches_seconds: f64,
    purposes: Vec<Purpose>,
}

/// The launches of a forward that are for one purpose, one after the other.
#[derive(Serialize)]
struct Purpose {
    purpose: &'static str,
    launches: usize,
    seconds: f64,
    weight_bytes: usize,
}

#[derive(Serialize)]
struct Forward {
    context: usize,
    rows: usize,
    median_seconds: f64,
    fastest_seconds: f64,
    slowest_seconds: f64,
    rows_per_second: f64,
    /// Weights, keys and values.
    bytes_read: usize,
    bytes_per_second: f64,
    /// Of what memory can be read at.
    memory_share: f64,
    /// Of one row in the same context.
    cost_of_one_row: Option<f64>,
    /// Kernels launched, on a GPU.
    launches: Option<usize>,
    /// The same for each layer, embedding and head included.
    launches_per_layer: Option<f64>,
}

pub(super) fn run(args: &ModelArgs) -> Result<()> {
    super::report(&measure(args)?, args.json, |out, measured| {
        show(out, measured)
    })
}

fn measure(args: &ModelArgs) -> Result<Measured> {
    if args.repeats == 0 || args.rows.contains(&0) {
        bail!("--repeats and --rows must be 1 or more");
    }
    let options = load_options(&args.device, args.dtype.as_deref())?;
    if args.profile && matches!(options.device, Device::Cpu) {
        bail!("--profile is for models on a GPU: give one with --device");
    }
    let (name, model) = subject(args, &options)?;
    let bench = ForwardBench {
        contexts: args.contexts.clone(),
        rows: args.rows.clone(),
        source: args.source,
        repeats: args.repeats,
        ..ForwardBench::default()
    };
    let mut session = model.session();
    let costs = bench.run(&mut session)?;
    if costs.is_empty() {
        bail!("the model has no room for any of these contexts and rows; ask for smaller ones");
    }
    let profiles = match args.profile {
        true => profiles(&bench, &costs, &model, &mut session)?,
        false => Vec::new(),
    };
    drop(session);
    // Before the bandwidth is measured, which takes memory too.
    let peak = options.device.peak_memory();
    let (read, copy) = bandwidth(&options.device)?;
    Ok(Measured {
        model: name,
        random_weights: args.shape.shape()?.is_some(),
        device: args.device.clone(),
        dtype: options.dtype.as_str().to_owned(),
        parameters: model.num_parameters(),
        layers: model.layers(),
        bytes_per_forward: model.bytes_per_forward(),
        source: (model.architecture() == Architecture::EncoderDecoder).then_some(args.source),
        memory_bytes_per_second: read,
        copy_bytes_per_second: copy,
        peak_memory_bytes: peak,
        forwards: costs
            .iter()
            .map(|cost| forward(cost, &costs, &model, args.source, read))
            .collect(),
        profiles,
    })
}

/// Where the time of the forwards goes that were measured in the last context.
fn profiles(
    bench: &ForwardBench,
    costs: &[ForwardCost],
    model: &Model,
    session: &mut Session,
) -> Result<Vec<Profile>> {
    let last = costs.last().map(|cost| cost.context);
    let mut profiles = Vec::new();
    for cost in costs.iter().filter(|cost| Some(cost.context) == last) {
        let once = ForwardBench {
            contexts: vec![cost.context],
            rows: vec![cost.rows],
            repeats: 1,
            ..bench.clone()
        };
        once.run(session)?;
        let launches = model.profile(bench.repeats)?;
        let Some((nothing, purposes)) = launches.split_first() else {
            continue;
        };
        profiles.push(Profile {
            context: cost.context,
            rows: cost.rows,
            forward_seconds: cost.median.as_secs_f64(),
            empty_launches_seconds: nothing.seconds,
            purposes: purposes
                .iter()
                .map(|cost| Purpose {
                    purpose: cost.purpose,
                    launches: cost.launches,
                    seconds: cost.seconds,
                    weight_bytes: cost.weights,
                })
                .collect(),
        });
    }
    Ok(profiles)
}

/// The model that is measured, and its name.
fn subject(args: &ModelArgs, options: &LoadOptions) -> Result<(String, Arc<Model>)> {
    if let Some(shape) = args.shape.shape()? {
        return Ok((shape.to_owned(), of_shape(shape, options)?));
    }
    let model = args.model.as_deref().unwrap_or_default();
    let loaded = load(&model_source(model)?, options)?;
    Ok((loaded.name, loaded.model))
}

/// Bytes per second that the device's memory is read at, and copied at if it is a GPU's.
fn bandwidth(device: &Device) -> Result<(f64, Option<f64>)> {
    // Far more than any cache holds.
    const MOST: usize = 2 << 30;
    match device {
        Device::Cpu => Ok((read_bandwidth(), None)),
        Device::Gpu(gpu) => {
            let (used, all) = gpu.memory()?;
            let measured = gpu.bandwidth(MOST.min((all - used) / 4))?;
            Ok((measured.read, Some(measured.copy)))
        }
    }
}

fn forward(
    cost: &ForwardCost,
    all: &[ForwardCost],
    model: &Model,
    source: usize,
    bandwidth: f64,
) -> Forward {
    let seconds = cost.median.as_secs_f64();
    let one = all
        .iter()
        .find(|one| one.rows == 1 && one.context == cost.context);
    let bytes = model.bytes_read(cost.context, cost.rows, source);
    let launches = model.launches(cost.rows);
    Forward {
        context: cost.context,
        rows: cost.rows,
        median_seconds: seconds,
        fastest_seconds: cost.fastest.as_secs_f64(),
        slowest_seconds: cost.slowest.as_secs_f64(),
        rows_per_second: cost.rows as f64 / seconds,
        bytes_read: bytes,
        bytes_per_second: bytes as f64 / seconds,
        memory_share: bytes as f64 / seconds / bandwidth,
        cost_of_one_row: one.map(|one| seconds / one.median.as_secs_f64()),
        launches,
        launches_per_layer: launches.map(|count| count as f64 / model.layers() as f64),
    }
}

fn show(out: &mut impl Write, measured: &Measured) -> Result<()> {
    show_model(out, measured)?;
    writeln!(
        out,
        "\n{:>8} {:>5} {:>10} {:>21} {:>9} {:>10} {:>8} {:>8} {:>9}",
        "context",
        "rows",
        "median ms",
        "fastest to slowest",
        "rows/s",
        "x one row",
        "GB/s",
        "memory",
        "launches"
    )?;
    measured
        .forwards
        .iter()
        .try_for_each(|forward| show_forward(out, forward))?;
    measured
        .profiles
        .iter()
        .try_for_each(|profile| show_profile(out, profile))
}

fn show_profile(out: &mut impl Write, profile: &Profile) -> Result<()> {
    let microseconds = |seconds: f64| 1e6 * seconds;
    let all: f64 = profile.purposes.iter().map(|purpose| purpose.seconds).sum();
    let launches: usize = profile.purposes.iter().map(|p| p.launches).sum();
    writeln!(
        out,
        "\n{} rows after {} tokens: {:.1} us; its {launches} launches by purpose {:.1} us; as many that do nothing {:.1} us",
        profile.rows,
        profile.context,
        microseconds(profile.forward_seconds),
        microseconds(all),
        microseconds(profile.empty_launches_seconds)
    )?;
    writeln!(
        out,
        "{:>26} {:>8} {:>10} {:>9} {:>7} {:>8}",
        "", "launches", "us", "us each", "share", "GB/s"
    )?;
    for purpose in &profile.purposes {
        let speed = match purpose.weight_bytes {
            0 => "-".to_owned(),
            bytes => format!("{:.0}", bytes as f64 / purpose.seconds / 1e9),
        };
        writeln!(
            out,
            "{:>26} {:>8} {:>10.1} {:>9.2} {:>6.1}% {:>8}",
            purpose.purpose,
            purpose.launches,
            microseconds(purpose.seconds),
            microseconds(purpose.seconds) / purpose.launches as f64,
            100.0 * purpose.seconds / all,
            speed
        )?;
    }
    Ok(())
}

fn show_model(out: &mut impl Write, measured: &Measured) -> Result<()> {
    let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
    writeln!(
        out,
        "{}{} on {} in {}: {} parameters, {:.3} GiB of weights read by each forward of {} layers",
        measured.model,
        if measured.random_weights {
            " with random weights"
        } else {
            ""
        },
        measured.device,
        measured.dtype,
        measured.parameters,
        gib(measured.bytes_per_forward),
        measured.layers
    )?;
    if let Some(source) = measured.source {
        writeln!(out, "the source has {source} tokens")?;
    }
    if let Some(peak) = measured.peak_memory_bytes {
        writeln!(out, "memory at its peak: {:.2} GiB", gib(peak))?;
    }
    let copied = match measured.copy_bytes_per_second {
        Some(copy) => format!(", and read and written by a copy at {:.1} GB/s", copy / 1e9),
        None => String::new(),
    };
    writeln!(
        out,
        "memory is read at {:.1} GB/s{copied}; what stays in a cache is read faster",
        measured.memory_bytes_per_second / 1e9
    )?;
    Ok(())
}

fn show_forward(out: &mut impl Write, forward: &Forward) -> Result<()> {
    let relative = forward
        .cost_of_one_row
        .map_or_else(String::new, |cost| format!("{cost:.2}"));
    let launches = forward
        .launches
        .map_or_else(|| "-".to_owned(), |count| count.to_string());
    writeln!(
        out,
        "{:>8} {:>5} {:>10.3} {:>21} {:>9.0} {:>10} {:>8.2} {:>7.0}% {:>9}",
        forward.context,
        forward.rows,
        1e3 * forward.median_seconds,
        format!(
            "{:.3} to {:.3}",
            1e3 * forward.fastest_seconds,
            1e3 * forward.slowest_seconds
        ),
        forward.rows_per_second,
        relative,
        forward.bytes_per_second / 1e9,
        100.0 * forward.memory_share,
        launches
    )?;
    Ok(())
}
