//! `cascade bench`: what forwards cost on this machine.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{bail, Result};
use cascade_config::model_source;
use cascade_eval::{read_bandwidth, ForwardBench, ForwardCost};
use cascade_models::{load, parse_device, parse_dtype, HubOptions, LoadOptions, LoadedModel};
use clap::{Args, Subcommand};
use serde::Serialize;

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure a model's forwards by rows and context, beside the speed at which memory can be read.
    Model(ModelArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// A folder, a model of the hub (org/name or org/name@revision), or embedded:NAME.
    #[arg(value_name = "MODEL")]
    model: String,

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

    /// What to compute in: f32, f16 or bf16.
    #[arg(long, value_name = "DTYPE", default_value = "f32")]
    dtype: String,

    /// Where to compute: cpu or cuda:N.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

/// Everything that was measured.
#[derive(Serialize)]
struct Measured {
    model: String,
    device: String,
    dtype: String,
    parameters: usize,
    /// Weights that one forward reads.
    bytes_per_forward: usize,
    /// Read by all processors together, from memory; absent on other devices than the CPU.
    memory_bytes_per_second: Option<f64>,
    forwards: Vec<Forward>,
}

#[derive(Serialize)]
struct Forward {
    context: usize,
    rows: usize,
    median_seconds: f64,
    fastest_seconds: f64,
    slowest_seconds: f64,
    rows_per_second: f64,
    bytes_per_second: f64,
    /// Of one row in the same context.
    cost_of_one_row: Option<f64>,
}

pub(crate) fn run(command: &BenchCommand) -> Result<ExitCode> {
    let BenchCommand::Model(args) = command;
    let measured = measure(args)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &measured)?;
        writeln!(out)?;
    } else {
        show(&mut out, &measured)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &ModelArgs) -> Result<Measured> {
    if args.repeats == 0 || args.rows.contains(&0) {
        bail!("--repeats and --rows must be 1 or more");
    }
    let model = load_model(args)?;
    let bench = ForwardBench {
        contexts: args.contexts.clone(),
        rows: args.rows.clone(),
        source: args.source,
        repeats: args.repeats,
        ..ForwardBench::default()
    };
    let costs = bench.run(&mut model.session())?;
    if costs.is_empty() {
        bail!("the model has no room for any of these contexts and rows; ask for smaller ones");
    }
    let bytes = model.model.bytes_per_forward();
    Ok(Measured {
        model: model.name.clone(),
        device: args.device.clone(),
        dtype: args.dtype.clone(),
        parameters: model.num_parameters(),
        bytes_per_forward: bytes,
        memory_bytes_per_second: (args.device == "cpu").then(read_bandwidth),
        forwards: costs
            .iter()
            .map(|cost| forward(cost, &costs, bytes))
            .collect(),
    })
}

fn load_model(args: &ModelArgs) -> Result<LoadedModel> {
    let source = model_source(&args.model)?;
    let options = LoadOptions {
        device: parse_device(&args.device)?,
        dtype: parse_dtype(&args.dtype)?,
        hub: HubOptions::from_env(),
        progress: true,
        tokenizer: None,
    };
    Ok(load(&source, &options)?)
}

fn forward(cost: &ForwardCost, all: &[ForwardCost], bytes: usize) -> Forward {
    let seconds = cost.median.as_secs_f64();
    let one = all
        .iter()
        .find(|one| one.rows == 1 && one.context == cost.context);
    Forward {
        context: cost.context,
        rows: cost.rows,
        median_seconds: seconds,
        fastest_seconds: cost.fastest.as_secs_f64(),
        slowest_seconds: cost.slowest.as_secs_f64(),
        rows_per_second: cost.rows as f64 / seconds,
        bytes_per_second: bytes as f64 / seconds,
        cost_of_one_row: one.map(|one| seconds / one.median.as_secs_f64()),
    }
}

fn show(out: &mut impl Write, measured: &Measured) -> Result<()> {
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    writeln!(
        out,
        "{} on {} in {}: {} parameters, {:.1} MiB of weights read by each forward",
        measured.model,
        measured.device,
        measured.dtype,
        measured.parameters,
        mib(measured.bytes_per_forward as f64)
    )?;
    if let Some(bandwidth) = measured.memory_bytes_per_second {
        writeln!(
            out,
            "memory is read at {:.1} GB/s; weights that stay in the cache are read faster",
            bandwidth / 1e9
        )?;
    }
    writeln!(
        out,
        "\n{:>8} {:>5} {:>10} {:>21} {:>9} {:>10} {:>8} {:>8}",
        "context",
        "rows",
        "median ms",
        "fastest to slowest",
        "rows/s",
        "x one row",
        "GB/s",
        "memory"
    )?;
    for forward in &measured.forwards {
        let of_memory = measured
            .memory_bytes_per_second
            .map_or_else(String::new, |bandwidth| {
                format!("{:.0}%", 100.0 * forward.bytes_per_second / bandwidth)
            });
        let relative = forward
            .cost_of_one_row
            .map_or_else(String::new, |cost| format!("{cost:.2}"));
        writeln!(
            out,
            "{:>8} {:>5} {:>10.3} {:>21} {:>9.0} {:>10} {:>8.2} {:>8}",
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
            of_memory
        )?;
    }
    Ok(())
}
