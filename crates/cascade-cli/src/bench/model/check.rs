//! `cascade bench model --check`: do forwards say what they should?

use std::io::Write;

use anyhow::{bail, ensure, Result};
use cascade_config::model_source;
use cascade_eval::{CheckedForward, Compared, ForwardCheck};
use cascade_models::{load, DType, Device, LoadOptions, Session};
use serde::Serialize;

use super::super::options::{layer_of_shape, load_options};
use super::{check_scores, ModelArgs};

/// How far logits in bf16 may be from those of the CPU, root mean squares: sums of thousands of
/// products of numbers of 8 bits, in other orders.
const OF_BF16: f64 = 0.03;
const OF_F32: f64 = 1e-4;

#[derive(Serialize)]
struct Checked {
    model: String,
    device: String,
    dtype: String,
    /// The largest relative distance from the CPU that passes.
    tolerance: f64,
    passed: bool,
    forwards: Vec<Forward>,
}

#[derive(Serialize)]
struct Forward {
    context: usize,
    rows: usize,
    /// `chain`, `tree`, or `cpu`.
    compared: &'static str,
    /// Logits that differ in any bit from the same rows one by one.
    differing: Option<usize>,
    /// Root mean square of the distance from the same rows one by one, or from the CPU, relative to
    /// the logits.
    distance: Option<f64>,
    passed: bool,
}

pub(super) fn check(args: &ModelArgs) -> Result<()> {
    check_scores(args)?;
    let options = load_options(&args.device, args.dtype.as_deref(), args.cache_dtype)?;
    let check = ForwardCheck {
        contexts: args.contexts.clone(),
        rows: args.rows.clone(),
        source: args.source,
        seed: 1,
    };
    let (model, mut session) = subject(args, &options)?;
    let mut other = on_cpu(args, &options)?;
    let other = other
        .as_mut()
        .map(|session| session as &mut dyn cascade_core::Scorer);
    let compared = check.run(&mut session, other)?;
    if compared.is_empty() {
        bail!("none of these contexts and rows fit into the model; use smaller ones");
    }
    let tolerance = match options.dtype {
        DType::F32 => OF_F32,
        _ => OF_BF16,
    };
    let invariant = session.model().is_row_invariant();
    let forwards: Vec<_> = compared
        .iter()
        .map(|of| row(of, tolerance, invariant))
        .collect();
    let checked = Checked {
        model,
        device: args.device.clone(),
        dtype: options.dtype.as_str().to_owned(),
        tolerance,
        passed: forwards.iter().all(|forward| forward.passed),
        forwards,
    };
    super::super::report(&checked, args.json, show)?;
    let Checked { model, device, .. } = &checked;
    ensure!(checked.passed, "forwards of {model} differ on {device}");
    Ok(())
}

/// The model on the CPU, to compare with; none if the CPU itself is checked.
fn on_cpu(args: &ModelArgs, options: &LoadOptions) -> Result<Option<Session>> {
    if options.device.is_cpu() {
        return Ok(None);
    }
    let on_cpu = LoadOptions {
        device: Device::Cpu,
        ..options.clone()
    };
    Ok(Some(subject(args, &on_cpu)?.1))
}

/// A layer of the shape, or the model, and its name.
fn subject(args: &ModelArgs, options: &LoadOptions) -> Result<(String, Session)> {
    if let Some(shape) = args.shape.shape()? {
        let session = layer_of_shape(shape, options)?.session();
        return Ok((format!("{shape}, one layer and the head"), session));
    }
    let model = args.model.as_deref().unwrap_or_default();
    let loaded = load(&model_source(model)?, options)?;
    Ok((loaded.name.clone(), loaded.session()))
}

fn row(forward: &CheckedForward, tolerance: f64, invariant: bool) -> Forward {
    let (compared, differing, distance) = match forward.compared {
        Compared::Chain {
            differing,
            distance,
        } => ("chain", Some(differing), Some(distance)),
        Compared::Tree {
            differing,
            distance,
        } => ("tree", Some(differing), Some(distance)),
        Compared::Other { distance } => ("cpu", None, Some(distance)),
        _ => ("other", None, None),
    };
    Forward {
        context: forward.context,
        rows: forward.rows,
        compared,
        differing,
        distance,
        passed: forward.passes(tolerance, invariant),
    }
}

fn show(out: &mut impl Write, checked: &Checked) -> Result<()> {
    writeln!(
        out,
        "{} in {} on {}",
        checked.model, checked.dtype, checked.device
    )?;
    writeln!(
        out,
        "\n{:>8} {:>5}  {:<7} {:>24}",
        "context", "rows", "with", "difference"
    )?;
    for forward in &checked.forwards {
        let said = match (forward.differing, forward.distance) {
            (Some(0), _) => "none, bit for bit".to_owned(),
            (Some(differing), distance) => {
                let percent = 100.0 * distance.unwrap_or_default();
                format!("{differing} logits, {percent:.5} %")
            }
            (None, distance) => format!("{:.3} %", 100.0 * distance.unwrap_or_default()),
        };
        let verdict = if forward.passed { "" } else { "  FAILS" };
        let with = if forward.compared == "cpu" {
            "the CPU"
        } else {
            forward.compared
        };
        writeln!(
            out,
            "{:>8} {:>5}  {with:<7} {said:>24}{verdict}",
            forward.context, forward.rows
        )?;
    }
    Ok(())
}
