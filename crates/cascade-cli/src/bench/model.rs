//! `cascade bench model`: cost of forwards on this machine.

mod beside;
mod check;
mod said;
mod show;

pub(super) use self::beside::{COMMAND as BUSY, busy};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use cascade_config::{CostClock, CostFile, ForwardTime, model_source};
use cascade_core::Architecture;
use cascade_eval::{ForwardBench, ForwardClock, ForwardCost, steady_times};
use cascade_models::{CacheType, LoadOptions, Model, Session, load, parse_cache_type};
use clap::{ArgGroup, Args};
use serde::Serialize;

use crate::{at_most, bounded};

use super::options::{ShapeArgs, bandwidth, load_options, of_shape};

/// Logits and scores of attention take memory in proportion to the rows; no draft has as many.
const MOST_ROWS: usize = 4096;

/// Keys and values take memory in proportion to the positions.
const MOST_POSITIONS: usize = 1 << 17;

/// Scores of attention: rows times positions.
const MOST_SCORES: usize = 1 << 26;

/// Attention in a source takes memory in proportion to the square of its length.
const MOST_SOURCE: usize = 1 << 14;

const MOST_REPEATS: usize = 100_000;

const MOST_BESIDE: usize = 1024;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("measured").required(true).args(["model", "shape"])))]
pub(crate) struct ModelArgs {
    /// A folder, a hub model (org/name or org/name@revision), or embedded:NAME.
    #[arg(value_name = "MODEL")]
    model: Option<String>,

    #[command(flatten)]
    shape: ShapeArgs,

    /// Rows per forward: 1 is plain decoding, n + 1 verifies a draft of n tokens.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64], value_parser = at_most(MOST_ROWS))]
    rows: Vec<usize>,

    /// Context lengths, in tokens, before the rows.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_values_t = [128, 512, 2048], value_parser = bounded(0, MOST_POSITIONS))]
    contexts: Vec<usize>,

    /// Source length in tokens, for encoder-decoder models.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = bounded(0, MOST_SOURCE))]
    source: usize,

    /// Forwards per measurement, of which the median is reported.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = at_most(MOST_REPEATS))]
    repeats: usize,

    /// Data type: f32, f16 or bf16; on the CPU also q8_0, q4_0, or stored (as the file has them)
    /// [default: that of `cascade run`: stored for a GGUF file, else f32 on the CPU and bf16 on a
    /// GPU].
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,

    /// Data type of keys and values on a CPU: f32, bf16 or f16 [default: f32].
    #[arg(long, value_name = "DTYPE", value_parser = parse_cache_type)]
    cache_dtype: Option<CacheType>,

    /// Device: auto, cpu, cuda:N or metal:N, or candle:cpu, the second engine on the CPU.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,

    /// Time rows of a tree, a path and a sibling of each of its nodes, instead of a chain.
    #[arg(long)]
    tree: bool,

    /// Time a row of each of so many texts in one forward, as texts that are generated at a time
    /// share it, instead of rows of one text.
    #[arg(long, conflicts_with_all = ["tree", "check", "save", "logits"])]
    texts: bool,

    /// Time forwards once more beside so many busy processes, which the command starts and ends:
    /// for two seconds of each number of rows, or longer.
    #[arg(long, value_name = "N", value_parser = at_most(MOST_BESIDE), conflicts_with_all = ["texts", "check", "save", "logits"])]
    beside: Option<usize>,

    /// Compare forwards instead of timing them: rows of chains and trees with the same rows one by
    /// one, bit for bit, and all with the CPU; of a shape, one layer and the head. Fails if they
    /// differ.
    #[arg(long)]
    check: bool,

    /// Write the times to a file, which --costs of `run`, `tune`, `replay` and `reproduce` reads.
    /// They are measured until two measurements agree; fails if they never do.
    #[arg(long, value_name = "FILE", requires = "model", conflicts_with_all = ["check", "tree"])]
    save: Option<PathBuf>,

    /// Also write the logits of the last rows of a text, and the greedy tokens after it, as JSON:
    /// benches/compare_logits.py compares such files.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "save"])]
    logits: Option<PathBuf>,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

/// All measurements.
#[derive(Serialize)]
struct Measured {
    model: String,
    random_weights: bool,
    device: String,
    dtype: String,
    parameters: usize,
    /// Layers of a forward.
    layers: usize,
    /// Weight bytes read by a forward of one row.
    bytes_per_forward: usize,
    /// Source length in tokens, if there is a source.
    source: Option<usize>,
    /// Whether rows were a tree.
    tree: bool,
    /// Whether each row was of another text.
    texts: bool,
    /// Busy processes beside the second measurement, if there was one.
    beside: Option<usize>,
    /// Read bandwidth of the host's memory, with all cores; nothing on a GPU.
    memory_bytes_per_second: Option<f64>,
    /// Peak memory of this process, if known; nothing on a GPU.
    peak_memory_bytes: Option<usize>,
    forwards: Vec<Forward>,
}

#[derive(Serialize)]
struct Forward {
    context: usize,
    rows: usize,
    median_seconds: f64,
    mean_seconds: f64,
    /// Mean beside busy processes, and the speed there as a fraction of that without any.
    beside_mean_seconds: Option<f64>,
    beside_speed: Option<f64>,
    fastest_seconds: f64,
    slowest_seconds: f64,
    rows_per_second: f64,
    /// Bytes of weights, keys and values.
    bytes_read: usize,
    bytes_per_second: f64,
    /// Fraction of the memory's read bandwidth.
    memory_share: Option<f64>,
    /// Time relative to one row at the same context length.
    cost_of_one_row: Option<f64>,
}

impl ModelArgs {
    fn load_options(&self) -> Result<LoadOptions> {
        let (model, dtype) = (self.model.as_deref(), self.dtype.as_deref());
        load_options(model, &self.device, dtype, self.cache_dtype)
    }
}

pub(super) fn run(args: &ModelArgs) -> Result<()> {
    if args.check {
        return check::check(args);
    }
    super::report(&measure(args)?, args.json, |out, measured| {
        show::show(out, measured)
    })
}

fn measure(args: &ModelArgs) -> Result<Measured> {
    check_scores(args)?;
    let options = args.load_options()?;
    let (name, model) = subject(args, &options)?;
    let bench = bench(args);
    let mut session = model.session();
    let costs = costs(args, &bench, &model, &mut session)?;
    let busy = args.beside;
    let beside = busy.map(|count| beside::costs(count, &bench, &costs, &mut session));
    let beside = beside.transpose()?.unwrap_or_default();
    if let Some(file) = &args.save {
        saved(args, &name, &options, &model, &costs).save(file)?;
    }
    if let Some(file) = &args.logits {
        said::write(file, args, &name, &options, &costs, &mut session)?;
    }
    drop(session);
    // Before measuring the bandwidth, which takes memory too.
    let peak = options.device.peak_memory();
    let read = bandwidth(&options.device);
    let forwards = costs.iter();
    let bytes = |cost: &ForwardCost| bytes_read(args, &model, cost);
    let forwards = forwards.enumerate().map(|(number, cost)| {
        let beside = beside.get(number).map(|cost| cost.mean);
        forward(cost, bytes(cost), &costs, read, beside)
    });
    Ok(Measured {
        model: name,
        random_weights: args.shape.shape()?.is_some(),
        device: args.device.clone(),
        dtype: options.dtype.as_str().to_owned(),
        parameters: model.num_parameters(),
        layers: model.layers(),
        bytes_per_forward: model.bytes_per_forward(1),
        source: (model.info().architecture == Architecture::EncoderDecoder).then_some(args.source),
        tree: args.tree,
        texts: args.texts,
        beside: busy,
        memory_bytes_per_second: read,
        peak_memory_bytes: peak,
        forwards: forwards.collect(),
    })
}

fn bench(args: &ModelArgs) -> ForwardBench {
    ForwardBench {
        contexts: args.contexts.clone(),
        rows: args.rows.clone(),
        source: args.source,
        repeats: args.repeats,
        tree: args.tree,
        ..ForwardBench::default()
    }
}

/// What forwards take: if they are saved, only what agrees.
fn costs(
    args: &ModelArgs,
    bench: &ForwardBench,
    model: &Arc<Model>,
    session: &mut Session,
) -> Result<Vec<ForwardCost>> {
    let costs = match (args.save.is_some(), args.texts) {
        (true, _) => {
            let clock = ForwardClock::of(model);
            steady_times(
                &ForwardBench {
                    clock,
                    ..bench.clone()
                },
                session,
            )?
        }
        (false, true) => bench.run_texts(model)?,
        (false, false) => bench.run(session)?,
    };
    if costs.is_empty() {
        bail!("none of these contexts and rows fit into the model; use smaller ones")
    } else {
        Ok(costs)
    }
}

/// The file that --save writes.
fn saved(
    args: &ModelArgs,
    name: &str,
    options: &LoadOptions,
    model: &Model,
    forwards: &[ForwardCost],
) -> CostFile {
    let (name, cache) = (name.to_owned(), options.cache_dtype);
    let of = cascade_config::Measured::new(name, options.dtype, cache, &options.device);
    let clock = match ForwardClock::of(model) {
        ForwardClock::Cpu => CostClock::Cpu,
        ForwardClock::Wall => CostClock::Wall,
    };
    let forwards = forwards.iter().map(|cost| ForwardTime {
        context: cost.context,
        rows: cost.rows,
        seconds: cost.typical.as_secs_f64(),
        fastest: cost.fastest.as_secs_f64(),
        slowest: cost.slowest.as_secs_f64(),
    });
    let source = (model.info().architecture == Architecture::EncoderDecoder).then_some(args.source);
    let (program, machine) = (
        cascade_config::PROGRAM.to_owned(),
        cascade_config::machine(),
    );
    CostFile::new(program, machine, of, clock, source, forwards.collect())
}

/// Refuses forwards whose attention would take too much memory.
fn check_scores(args: &ModelArgs) -> Result<()> {
    let rows = args.rows.iter().copied().max().unwrap_or_default();
    let context = args.contexts.iter().copied().max().unwrap_or_default();
    if args.texts && rows * (context + 1) > MOST_POSITIONS {
        bail!(
            "--rows {rows} texts with --contexts {context} are too many: texts times positions may \
             be {MOST_POSITIONS} at most"
        );
    }
    if rows * (context + rows) > MOST_SCORES {
        bail!(
            "--rows {rows} after --contexts {context} are too many for one forward: rows times \
             positions may be {MOST_SCORES} at most; measure them in separate commands"
        );
    }
    Ok(())
}

/// The model to measure, and its name.
fn subject(args: &ModelArgs, options: &LoadOptions) -> Result<(String, Arc<Model>)> {
    if let Some(shape) = args.shape.shape()? {
        return Ok((shape.to_owned(), of_shape(shape, options)?));
    }
    let model = args.model.as_deref().unwrap_or_default();
    let loaded = load(&model_source(model)?, options)?;
    Ok((loaded.name, loaded.model))
}

/// Bytes of weights, and of the keys and values of all texts.
fn bytes_read(args: &ModelArgs, model: &Model, cost: &ForwardCost) -> usize {
    let &ForwardCost { context, rows, .. } = cost;
    if args.texts {
        let cache = model.bytes_read(context, 1, args.source) - model.bytes_per_forward(1);
        model.bytes_per_forward(rows) + rows * cache
    } else {
        model.bytes_read(context, rows, args.source)
    }
}

fn forward(
    cost: &ForwardCost,
    bytes: usize,
    all: &[ForwardCost],
    bandwidth: Option<f64>,
    beside: Option<Duration>,
) -> Forward {
    let (seconds, mean) = (cost.median.as_secs_f64(), cost.mean.as_secs_f64());
    let beside = beside.map(|beside| beside.as_secs_f64());
    let one = all
        .iter()
        .find(|one| one.rows == 1 && one.context == cost.context);
    Forward {
        context: cost.context,
        rows: cost.rows,
        median_seconds: seconds,
        mean_seconds: mean,
        beside_mean_seconds: beside,
        beside_speed: beside.map(|beside| mean / beside),
        fastest_seconds: cost.fastest.as_secs_f64(),
        slowest_seconds: cost.slowest.as_secs_f64(),
        rows_per_second: cost.rows as f64 / seconds,
        bytes_read: bytes,
        bytes_per_second: bytes as f64 / seconds,
        memory_share: bandwidth.map(|bandwidth| bytes as f64 / seconds / bandwidth),
        cost_of_one_row: one.map(|one| seconds / one.median.as_secs_f64()),
    }
}
