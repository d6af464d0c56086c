//! `cascade-lab trace score`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use cascade_config::model_source;
use cascade_core::Sampling;
use cascade_models::{CacheType, Session, load, parse_cache_type};
use cascade_traces::trace::{Bounds, ExpectedAcceptance, Predicted, Record, Trace, check_family};
use clap::Args;
use serde::Serialize;

use crate::bench::options::load_options;
use crate::progress::Progress;
use crate::terminal::grouped;
use crate::{at_most, interrupt, terminal};

#[derive(Debug, Args)]
pub(crate) struct ScoreArgs {
    /// The trace, plain or gzip.
    file: PathBuf,

    /// The model: a folder, a hub id (org/name, org/name@revision) or embedded:NAME.
    #[arg(long, short, value_name = "MODEL")]
    model: String,

    /// Data type of the weights: f32, f16 or bf16; also q8_0, and q4_0 on the CPU; `stored` as a
    /// GGUF file has them [default: f32 on the CPU, bf16 on a GPU].
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,

    /// Type of keys and values on the CPU: f32, bf16 or f16.
    #[arg(long, value_name = "DTYPE", value_parser = parse_cache_type)]
    cache_dtype: Option<CacheType>,

    /// Device: auto, cpu, cuda:N or metal:N.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,

    /// Maximum number of records, spread evenly over the trace [default: all].
    #[arg(long, value_name = "N", value_parser = at_most(1 << 30))]
    limit: Option<usize>,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Scored {
    trace: String,
    /// Whose outputs they are.
    recorded: String,
    model: String,
    dtype: String,
    records: usize,
    tokens: usize,
    perplexity: f64,
    /// 95%, by resampling records.
    interval: Option<(f64, f64)>,
    /// The share of the tokens that are the model's most probable ones.
    agreement: f64,
    /// Expected acceptance, for a sampled trace with probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    acceptance: Option<Acceptance>,
}

/// How often the recorded target keeps a first token that this model drafts with the settings of
/// the recording: expected, with bounds where too few probabilities were recorded.
#[derive(Serialize)]
struct Acceptance {
    /// By the rules that draw, at least and at most.
    drawn: (f64, f64),
    /// By the rule `coupled`.
    coupled: (f64, f64),
    /// Interval of the expected acceptance: 95%, by resampling records.
    coupled_interval: Option<(f64, f64)>,
}

pub(super) fn score(args: &ScoreArgs) -> Result<()> {
    let trace = Trace::open_any(&args.file)?;
    let drawn_from = drawn_from(&trace)?;
    let options = load_options(
        Some(&args.model),
        &args.device,
        args.dtype.as_deref(),
        args.cache_dtype,
    )?;
    let model = load(&model_source(&args.model)?, &options)?;
    check_family("--model", &model, &trace)?;
    let records = trace.spread(args.limit.unwrap_or(usize::MAX));
    let count = records.len();
    let (found, expected) = predicted(&trace, records, drawn_from, &mut model.session())?;
    let without = || format!("{}: no tokens to predict", trace.label);
    show(
        args,
        &Scored {
            perplexity: found.perplexity().with_context(without)?,
            agreement: found.agreement().with_context(without)?,
            interval: found.interval(),
            acceptance: acceptance(&expected),
            records: count,
            tokens: found.tokens(),
            recorded: trace.header.model.clone(),
            model: model.name.clone(),
            dtype: model.dtype.as_str().to_owned(),
            trace: trace.label,
        },
    )
}

/// What a model says of records.
fn predicted<'t>(
    trace: &Trace,
    records: impl ExactSizeIterator<Item = &'t Record>,
    drawn_from: Option<(Sampling, usize)>,
    session: &mut Session,
) -> Result<(Predicted, ExpectedAcceptance)> {
    let mut found = Predicted::default();
    let mut expected = ExpectedAcceptance::default();
    let mut progress = Progress::new(records.len(), "records");
    interrupt::cooperate();
    for record in records {
        if interrupt::requested() {
            bail!("interrupted: nothing is shown, as some of the records say little of the others");
        }
        let added = found.add(session, record);
        let named = || format!("{}: record {}", trace.label, record.id);
        added.with_context(named)?;
        if let Some((sampling, most)) = &drawn_from {
            let added = expected.add(session, record, (sampling, *most));
            added.with_context(named)?;
        }
        progress.step();
    }
    Ok((found, expected))
}

/// The settings of a sampled recording with probabilities, and how many it has for each token.
fn drawn_from(trace: &Trace) -> Result<Option<(Sampling, usize)>> {
    let Some(recorded) = trace.header.sampling() else {
        return Ok(None);
    };
    let sampling = recorded.sampling()?;
    Ok(recorded.top_probabilities.map(|most| (sampling, most)))
}

fn acceptance(expected: &ExpectedAcceptance) -> Option<Acceptance> {
    let pair = |bounds: Bounds| (bounds.low, bounds.high);
    Some(Acceptance {
        drawn: pair(expected.drawn()?),
        coupled: pair(expected.coupled()?),
        coupled_interval: expected.interval(),
    })
}

fn show(args: &ScoreArgs, scored: &Scored) -> Result<()> {
    let mut out = terminal::stdout();
    if args.json {
        return Ok(terminal::write_json(&mut out, scored)?);
    }
    let interval = scored.interval.map_or(String::new(), |(low, high)| {
        format!(" (95% interval {low:.4} to {high:.4})")
    });
    writeln!(
        out,
        "{} in {} on {} tokens of {}, {} records\nperplexity {:.4}{interval}; {:.2}% of the tokens are its own choice",
        scored.model,
        scored.dtype,
        grouped(scored.tokens as u64),
        scored.recorded,
        grouped(scored.records as u64),
        scored.perplexity,
        100.0 * scored.agreement
    )?;
    if let Some(acceptance) = &scored.acceptance {
        let [drawn, coupled] =
            [acceptance.drawn, acceptance.coupled].map(|(low, high)| Bounds { low, high });
        let interval = acceptance
            .coupled_interval
            .map_or(String::new(), |(low, high)| {
                format!(" (95% interval {low:.4} to {high:.4})")
            });
        writeln!(
            out,
            "as a drafter: a draft of one token is kept with probability {coupled}{interval} by `coupled`, {drawn} by rules that draw"
        )?;
    }
    Ok(())
}
