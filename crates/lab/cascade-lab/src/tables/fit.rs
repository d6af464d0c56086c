//! `cascade-lab ngram fit`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cascade_core::Fingerprint;
use cascade_core::fs::Existing;
use cascade_ngram::max_gram_tree::Weights;
use cascade_ngram::max_gram_tree::fit::Fitter;
use cascade_ngram::{MaxGramTree, MaxGramTreeConfig};
use cascade_traces::ngram::{Fitted, Fitting, Judged, Likelihood};
use cascade_traces::trace::{Record, Trace, Traces};
use clap::Args;
use serde_json::json;

use super::text::open;
use crate::exit::ExitCode;
use crate::terminal::{self, grouped};
use crate::{interrupt, outputs};

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    /// Recorded outputs of a target, plain or gzip, from `cascade-lab trace`. May be given several
    /// times.
    #[arg(long, value_name = "FILE", required = true)]
    trace: Vec<PathBuf>,

    /// Maximum number of records [default: all].
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// A static table that it drafts from: a file, or embedded:NAME.
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,

    /// Weights to begin with [default: the shipped ones].
    #[arg(long, value_name = "FILE.json")]
    weights: Option<PathBuf>,

    /// Tokens of earlier outputs that are kept to draft from; 0 keeps none.
    #[arg(long, value_name = "N", default_value_t = MaxGramTreeConfig::default().session_tokens)]
    session_tokens: usize,

    /// The file of weights to write.
    #[arg(long, value_name = "FILE.json")]
    out: PathBuf,

    /// Share of the prompts, between 0 and 1, that are not fitted to and only judge the weights.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    holdout: f64,

    /// How often the outputs are read.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = crate::at_most(1000))]
    passes: usize,

    /// How far the first step of each weight goes.
    #[arg(long, value_name = "RATE", default_value_t = Fitter::RATE, value_parser = rate)]
    rate: f32,

    /// Replace the file of weights if it exists.
    #[arg(long)]
    force: bool,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(share),
        _ => Err("give a number from 0 to below 1, such as 0.2".to_owned()),
    }
}

fn rate(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 10.0 => Ok(rate),
        _ => Err("give a number above 0, such as 0.1".to_owned()),
    }
}

pub(super) fn run(args: &FitArgs) -> Result<ExitCode> {
    let existing = Existing::replaced_if(args.force);
    let table = args.table.iter().map(PathBuf::from);
    let inputs = args
        .trace
        .iter()
        .cloned()
        .chain(table)
        .chain(args.weights.clone());
    let output = outputs::check(&args.out, existing, inputs)?;
    let traces = Traces::open(&args.trace, args.limit.unwrap_or(usize::MAX))?;
    let drafter = drafter(args, &traces.tokenizer())?;
    let fitting = fitting(args, &traces)?;
    let mut out = terminal::stdout();
    if !args.json {
        let (train, held_out) = (size(&fitting.train), size(&fitting.held_out));
        writeln!(out, "{}", describe(&traces))?;
        writeln!(out, "fitted to {train}; held out: {held_out}")?;
    }
    interrupt::cooperate();
    let fitted = fitting.run(&drafter, |pass, judged| {
        terminal::note(format_args!("pass {pass}: {}", nats(judged)));
        !interrupt::requested()
    });
    let json = fitted.weights.to_json().map_err(anyhow::Error::msg)?;
    output
        .write(json.as_bytes())
        .with_context(|| format!("cannot write {}", args.out.display()))?;
    if args.json {
        terminal::write_json(&mut out, &object(args, &traces, &fitted))?
    } else {
        print(&mut out, args, &fitted)?
    }
    Ok(if interrupt::requested() {
        interrupt::status()
    } else {
        ExitCode::SUCCESS
    })
}

/// The drafter for outputs of this tokenizer. A recording does not know what the target would have
/// said after rejected tokens, so it goes without that.
fn drafter(args: &FitArgs, tokenizer: &Fingerprint) -> Result<MaxGramTree> {
    let table = args.table.as_deref().map(|table| {
        let table = open(table)?;
        table.check_tokenizer(tokenizer)?;
        anyhow::Ok(Arc::new(table))
    });
    let options = MaxGramTreeConfig {
        session_tokens: args.session_tokens,
        learning_rate: 0.0,
        hints: 0,
        ..MaxGramTreeConfig::default()
    };
    let drafter = MaxGramTree::new(options, table.transpose()?);
    Ok(match &args.weights {
        Some(file) => drafter.with_weights(Weights::open(file).map_err(anyhow::Error::msg)?),
        None => drafter,
    })
}

/// What is replayed, in a line.
fn describe(traces: &Traces) -> String {
    let of = |trace: &Trace| {
        let header = &trace.header;
        let (provenance, model) = (header.provenance.as_str(), &header.model);
        format!("{} ({provenance} outputs of {model})", trace.label)
    };
    let named: Vec<String> = traces.traces().iter().map(of).collect();
    let tokens: usize = traces.records().map(|record| record.output.len()).sum();
    format!(
        "replayed from {}: {} records, {} tokens",
        named.join(", "),
        grouped(traces.records().count() as u64),
        grouped(tokens as u64)
    )
}

fn fitting<'t>(args: &FitArgs, traces: &'t Traces) -> Result<Fitting<'t>> {
    let (train, held_out) = Fitting::split(traces.records(), args.holdout);
    if train.is_empty() || args.holdout > 0.0 && held_out.is_empty() {
        bail!(
            "--holdout {} divides {} records into {} to fit to and {} to judge by; \
             give more records, or another share",
            args.holdout,
            train.len() + held_out.len(),
            train.len(),
            held_out.len()
        );
    }
    Ok(Fitting {
        train,
        held_out,
        passes: args.passes,
        rate: args.rate,
    })
}

fn size(records: &[&Record]) -> String {
    let tokens: usize = records.iter().map(|record| record.output.len()).sum();
    let records = grouped(records.len() as u64);
    format!("{records} records, {} tokens", grouped(tokens as u64))
}

/// The mean of -ln p(token), of both parts.
fn nats(judged: Judged) -> String {
    let of = |likelihood: Likelihood| match likelihood.nats_per_token {
        Some(nats) => format!("{nats:.4}"),
        None => "-".to_owned(),
    };
    format!(
        "{} nats per token fitted to, {} held out",
        of(judged.train),
        of(judged.held_out)
    )
}

fn print(out: &mut impl Write, args: &FitArgs, fitted: &Fitted) -> Result<()> {
    writeln!(out, "before: {}", nats(fitted.before))?;
    for (pass, judged) in (1..).zip(&fitted.passes) {
        writeln!(out, "pass {pass}: {}", nats(*judged))?;
    }
    let (file, pass) = (args.out.display(), fitted.pass);
    writeln!(
        out,
        "{file}: the weights after pass {pass}; in a configuration, max_gram_tree: {{ weights: {file} }}"
    )?;
    Ok(())
}

fn object(args: &FitArgs, traces: &Traces, fitted: &Fitted) -> serde_json::Value {
    let labels = traces.traces().iter().map(|trace| trace.label.as_str());
    json!({
        "replayed": labels.collect::<Vec<_>>(),
        "weights": args.out.display().to_string(),
        "before": fitted.before,
        "passes": fitted.passes,
        "pass": fitted.pass,
    })
}
