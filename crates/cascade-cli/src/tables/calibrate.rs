//! `cascade ngram calibrate`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use cascade_core::fs::Existing;
use cascade_ngram::MaxGramTreeOptions;
use cascade_report::{Axis, Evidence, Figure, Figures, Line, Plot, Table};
use cascade_traces::ngram::{tree_of, Band, Calibration};
use cascade_traces::trace::Traces;
use clap::Args;
use serde_json::{json, Value};

use super::traces::{describe, TraceArgs};
use super::tree::TreeArgs;
use crate::exit::ExitCode;
use crate::progress::Progress;
use crate::{interrupt, outputs, terminal};

#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    #[command(flatten)]
    trace: TraceArgs,

    #[command(flatten)]
    tree: TreeArgs,

    /// Nodes of a draft.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = crate::at_most(4096))]
    nodes: usize,

    /// How fast the weights follow the text; 0 keeps them as they are.
    #[arg(long, value_name = "RATE", default_value_t = MaxGramTreeOptions::default().learning_rate)]
    learning_rate: f32,

    /// Write the curve as a picture, too.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,

    /// Replace the picture if it exists.
    #[arg(long)]
    force: bool,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CalibrateArgs) -> Result<ExitCode> {
    let svg = args
        .svg
        .as_ref()
        .map(|path| {
            let existing = Existing::replaced_if(args.force);
            let inputs = args.trace.files().chain(args.tree.files());
            outputs::check(path, existing, inputs)
        })
        .transpose()?;
    let traces = args.trace.open()?;
    let mut drafter = args.tree.drafter(&traces.tokenizer(), args.learning_rate)?;
    let mut progress = Progress::new(traces.records().count(), "records");
    let mut calibration = Calibration::default();
    interrupt::cooperate();
    for record in traces.records() {
        if interrupt::requested() {
            return Ok(interrupt::status());
        }
        calibration.add(&mut drafter, record, tree_of(args.nodes));
        progress.step();
    }
    drop(progress);
    if let Some(output) = &svg {
        let written = output.write(plot(args, &calibration)?.to_svg().as_bytes());
        written.with_context(|| format!("cannot write {}", output.path().display()))?;
    }
    let mut out = terminal::stdout();
    if args.json {
        terminal::write_json(&mut out, &object(args, &traces, &calibration))?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{}\n", describe(&traces))?;
    writeln!(out, "{}", table(args, &calibration)?.to_markdown())?;
    writeln!(
        out,
        "tokens per forward: {:.3}, expected {:.3}; mean distance of estimates from shares: {:.4}",
        calibration.forwards.tokens_per_forward(),
        calibration.expected_tokens_per_forward(),
        calibration.error()
    )?;
    Ok(ExitCode::SUCCESS)
}

fn known(calibration: &Calibration) -> impl Iterator<Item = &Band> + Clone {
    calibration.bands.iter().filter(|band| band.nodes > 0)
}

fn title(args: &CalibrateArgs) -> String {
    format!("Calibration of the Max-Gram tree, {} nodes", args.nodes)
}

/// The share of accepted nodes, with two standard errors.
fn share(band: &Band) -> Option<Figure> {
    let (share, error) = (band.share()?, 2.0 * band.standard_error()?);
    let (low, high) = ((share - error).max(0.0), (share + error).min(1.0));
    Some(Figure::with_interval(share, low, high))
}

const INTERVALS: &str = "± 2 standard errors of independent nodes";

fn table(args: &CalibrateArgs, calibration: &Calibration) -> cascade_report::Result<Table> {
    let bands = known(calibration);
    let ends: Vec<f64> = calibration
        .bands
        .iter()
        .skip(1)
        .map(|band| band.from)
        .chain([1.0])
        .collect();
    let labels = calibration
        .bands
        .iter()
        .zip(ends)
        .filter(|(band, _)| band.nodes > 0);
    let nodes = bands.clone().map(|band| Figure::new(band.nodes as f64));
    let estimates = bands.clone().map(|band| band.estimate().map(Figure::new));
    Table::new(title(args))
        .labels(
            "Path probability",
            labels.map(|(band, end)| format!("{} to {end}", band.from)),
        )?
        .figures(Figures::new("Nodes", Evidence::Replayed, nodes).decimals(0))?
        .figures(Figures::new("Mean estimate", Evidence::Replayed, estimates).decimals(4))?
        .figures(
            Figures::new("Accepted share", Evidence::Replayed, bands.map(share))
                .decimals(4)
                .intervals(INTERVALS),
        )
}

fn plot(args: &CalibrateArgs, calibration: &Calibration) -> cascade_report::Result<Plot> {
    let points = known(calibration).filter_map(|band| Some((band.estimate()?, share(band)?)));
    let even = [0.0, 1.0].map(|at| (at, Figure::new(at)));
    Plot::lines(
        title(args),
        Axis::new("Estimated probability of the path").from_zero(),
        Axis::new("Share of nodes that were accepted").from_zero(),
        vec![
            Line::new("Max-Gram tree", Evidence::Replayed, points),
            Line::new("As estimated", Evidence::Computed, even),
        ],
    )
}

fn object(args: &CalibrateArgs, traces: &Traces, calibration: &Calibration) -> Value {
    let bands = known(calibration).map(|band| {
        json!({
            "from": band.from,
            "nodes": band.nodes,
            "accepted": band.accepted,
            "mean_estimate": band.estimate(),
            "accepted_share": band.share(),
        })
    });
    json!({
        "replayed": traces.labels(),
        "nodes": args.nodes,
        "bands": bands.collect::<Value>(),
        "tokens_per_forward": calibration.forwards.tokens_per_forward(),
        "expected_tokens_per_forward": calibration.expected_tokens_per_forward(),
        "error": calibration.error(),
        "forwards": calibration.forwards,
    })
}
